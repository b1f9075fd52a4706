from soak.jepsen.run import main

raise SystemExit(main())
