"""What makes inputs: `own`, a loop without dependencies, and `atheris`, guided by the coverage of the code."""
