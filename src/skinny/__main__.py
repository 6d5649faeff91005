"""`python -m skinny`, for launchers such as torchrun."""

import sys

from skinny.cli.main import main

sys.exit(main())
