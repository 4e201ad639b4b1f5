"""The program in a working folder of its own for each process: as if each ran on another machine with other files.

torchrun … references_own_folders.py FOLDER,FOLDER,… COMMAND …
"""

import os
import sys

from laplacenet.cli.app import main

if __name__ == "__main__":
    os.chdir(sys.argv.pop(1).split(",")[int(os.environ["RANK"])])
    main()
