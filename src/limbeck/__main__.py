from limbeck.cli import main

main()
