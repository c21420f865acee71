"use strict";
(() => {
  const root = document.documentElement;
  window.addEventListener("error", (event) => root.setAttribute("data-error", event.message));

  // Light or dark: the system's choice until the reader makes one.
  const button = document.querySelector(".theme");
  const remember = { get: () => { try { return localStorage.getItem("limbeck-theme"); } catch { return null; } },
                     set: (theme) => { try { localStorage.setItem("limbeck-theme", theme); } catch { /* private mode */ } } };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const current = () => root.dataset.theme || (system.matches ? "dark" : "light");
  if (remember.get()) root.dataset.theme = remember.get();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = current() === "dark" ? "light" : "dark";
    remember.set(root.dataset.theme);
  });

  // Tooltips: a mark's <title> becomes a box that appears at once.
  const box = document.createElement("div");
  box.className = "tip";
  box.setAttribute("role", "tooltip");
  document.body.append(box);
  for (const mark of document.querySelectorAll(".mark")) {
    const title = mark.querySelector("title");
    if (!title) continue;
    const words = title.textContent;
    title.remove();
    mark.classList.add("tells");
    mark.addEventListener("pointerenter", () => {
      const at = mark.getBoundingClientRect();
      box.textContent = words;
      box.classList.add("seen");
      const left = at.left + at.width / 2 - box.offsetWidth / 2;
      box.style.left = `${Math.max(8, Math.min(left, root.clientWidth - box.offsetWidth - 8))}px`;
      box.style.top = `${at.top > box.offsetHeight + 12 ? at.top - box.offsetHeight - 8 : at.bottom + 8}px`;
    });
    mark.addEventListener("pointerleave", () => box.classList.remove("seen"));
  }
  window.addEventListener("scroll", () => box.classList.remove("seen"), { passive: true });

  // Tables that sort: numbers by their value, names by their letters, the unknown last.
  const worth = (row, i) => {
    const cell = row.cells[i];
    if (cell.dataset.value === undefined) return cell.textContent.trim();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, i) => {
      const handle = document.createElement("button");
      handle.type = "button";
      handle.append(...head.childNodes);
      head.append(handle);
      handle.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].sort((a, b) => {
          const [x, y] = [worth(a, i), worth(b, i)];
          if (x === null || y === null) return (x === null) - (y === null);
          const order = typeof x === "number" ? x - y : x.localeCompare(y);
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows);
      });
    });
  }

  root.setAttribute("data-ready", "");
})();
