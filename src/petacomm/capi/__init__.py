"""petacomm for programs in C and Fortran, which compile ``petacomm.c`` with their own MPI.

The functions of ``petacomm.h`` call `calls` in an interpreter that they start in the program's process.

Must not import: `petacomm.report` and `petacomm.cli`.
"""

from petacomm.capi.compile_words import cmake_folder, compile_words, fortran_module

__all__ = ["cmake_folder", "compile_words", "fortran_module"]
