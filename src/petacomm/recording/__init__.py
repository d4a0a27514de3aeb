"""The communication of running MPI jobs, recorded by a library that is loaded before the program.

`interposer.c` counts, in each rank; `run_recorded` compiles it, starts the job and reads the files of its
ranks into a `Recording`, in which `collective_messages` makes messages of collectives. `read_recording`
reads the files of other tools, too (`ipm`, `otf2_trace`), but for those that tell no partners (`mpip`).

Must not import: `petacomm.network`, `petacomm.collectives` and the rooms above them.
"""

from petacomm.recording.recorded_files import read_recording
from petacomm.recording.recorded_job import run_recorded
from petacomm.recording.recording import Recording, load_recording

__all__ = ["Recording", "load_recording", "read_recording", "run_recorded"]
