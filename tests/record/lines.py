"""Every line that the recorder can print, and the test that provokes it.

A key is a fragment of the line as it stands in the source (between two `{…}` of an f-string); its value is the test,
below `tests/record`, in whose file the fragment stands too. `test_lines.py` finds all sentences of `record/` and of
`cli/record.py`, and fails for one without a fragment here: a new line comes with the test that shows when it is true.
"""

from __future__ import annotations

from typing import Final

_LINES = "test_lines.py::test_a_recorder_says_why"
_LAST = "test_lines.py::test_the_last_line_says_why_there_is_no_trace"
_REFUSED = "test_lines.py::test_what_cannot_be_recorded_is_refused"
_ANSWERED = "test_lines.py::test_a_request_that_cannot_be_met_is_answered"
_WRITER = "test_lines.py::test_a_writer_says_why"
_BOUNDS = "session/test_bounds.py"
_RUNNING = "always_on/test_running.py"
_SNAPSHOTS = "output/test_memory_snapshots.py"
_BAD = "test_server.py::test_a_server_that_misbehaves"
_ASKED = "test_trigger.py::test_trigger_says_what_came_of_it"
_UNASKED = "test_trigger.py::test_trigger_names_what_it_cannot_look_into"
_DAEMON = "daemon/test_daemon.py"
_OFFERS = f"{_DAEMON}::test_a_daemon_says_who_can_be_recorded_and_what_came_of_a_request"
_SKIPPED = "test_lines.py::test_a_window_that_is_asked_for_while_others_are_written_is_skipped"

_HANG = "hangs/test_watching.py"

_LOG = "output/test_device_log.py"
_HISTORY = "history/test_series.py"

_WANTED = "history/test_online_changes.py"

LINES: Final[dict[str, str]] = {
    # why a window was recorded
    "nothing says why": f"{_WANTED}::test_a_step_that_is_slow_without_a_cause_says_so",
    "slow step: step ": f"{_WANTED}::test_a_step_that_is_slow_without_a_cause_says_so",
    "steps still take ": f"{_WANTED}::test_a_step_that_takes_longer_opens_two_windows",
    "steps have come to take ": f"{_WANTED}::test_steps_that_come_to_take_longer_little_by_little",
    " steps one takes longer (": (
        f"{_WANTED}::test_spikes_with_a_period_open_a_window_after_one_and_one_in_which_it_is_due"
    ),
    "the first steps after ": f"{_WANTED}::test_the_steps_after_an_evaluation_and_a_compilation",
    " GB by step ": f"{_WANTED}::test_memory_that_creeps_opens_one_window",
    # a log of devices
    "is on this machine": f"{_LOG}::test_a_machine_without_such_a_program_records_all_the_same",
    "no log of devices": f"{_LOG}::test_a_machine_without_such_a_program_records_all_the_same",
    "ended with code ": f"{_LOG}::test_a_program_that_fails_leaves_no_log",
    "it has no line": f"{_LOG}::test_a_program_that_fails_leaves_no_log",
    "it ended at": f"{_LOG}::test_a_log_has_a_greatest_size",
    "power and clocks of the devices": (
        f"{_LOG}::test_the_log_is_written_while_the_program_runs_and_its_writer_ends_with_it"
    ),
    "writes into a folder: no URL": f"{_LOG}::test_a_log_lies_in_a_folder",
    # numbers that are sent
    "numbers were not sent": f"{_HISTORY}::test_what_cannot_be_sent_is_said_at_the_end",
    "--to sends the numbers of the history": f"{_HISTORY}::test_numbers_without_a_history_are_refused",
    # hangs
    "stacks and collectives of": f"{_HANG}::test_what_hung_stays_and_so_does_what_was_late",
    "`kinetoscope hang": f"{_HANG}::test_what_hung_stays_and_so_does_what_was_late",
    "and ended": f"{_HANG}::test_what_hung_stays_and_so_does_what_was_late",
    "no --for, no URL": f"{_HANG}::test_what_cannot_be_watched_is_refused",
    "no rank of": f"{_HANG}::test_what_cannot_be_watched_is_refused",
    "what the ranks wait for": "test_hang.py::test_trigger_asks_for_it_while_the_program_runs",
    # a process that records
    "nothing is recorded in process": "test_lines.py::test_a_package_of_another_version_is_named",
    "the package kinetoscope in": "test_lines.py::test_a_package_of_another_version_is_named",
    "torch is not recorded, as it comes from an importer of another make": (
        "test_lines.py::test_an_importer_of_another_make_is_said"
    ),
    "recording has ended in process": "test_lines.py::test_a_fault_of_ours_ends_the_recording_and_not_the_program",
    "the change could not be made": (
        "always_on/test_timing.py::test_a_change_that_fails_ends_the_process_with_its_reason"
    ),
    "several threads train: the steps of one are recorded": "test_lines.py::test_of_threads_that_train_one_is_recorded",
    "the program trains after all": (
        "always_on/test_module_calls.py::test_a_program_that_trains_later_is_recorded_by_its_optimizer"
    ),
    # what came of a request
    "rank 0 did not say at which step to begin": _ANSWERED,
    "it was at step": _ANSWERED,
    "it was recording already": _ANSWERED,
    # a window ends early
    "recording ended early: ": _LINES,
    ", which the next would pass": f"{_BOUNDS}::test_what_is_recorded_counts_with_what_torch_needs_to_stop_it",
    "MB of memory to stop": f"{_BOUNDS}::test_what_is_recorded_counts_with_what_torch_needs_to_stop_it",
    "MB are free": f"{_BOUNDS}::test_the_machine_is_left_enough_to_stop",
    "more than ": f"{_BOUNDS}::test_events_are_limited_too",
    "times the longest before it": f"{_BOUNDS}::test_a_long_step_ends_it_but_no_short_one",
    "it took longer than ": _LINES,
    "step() was never called, so all of the block was recorded, without shapes": _LINES,
    "the block ended before its steps did": _LINES,
    "the program ended": _LINES,
    "the recorder was closed": _LINES,
    "another profiler was started": "test_defects.py::test_nested_inside_ours_both_keep_what_they_recorded",
    # a window that is not recorded, or not written
    "a window is running": _LINES,
    "its first step did not come": _LINES,
    "another profiler is recording": "test_defects.py::test_ours_declines_inside_another",
    "traces were still being written": f"{_RUNNING}::test_windows_wait_for_the_traces_that_are_being_written",
    "A window was skipped": _SKIPPED,
    "Nothing was recorded": "test_defects.py::test_ours_declines_inside_another",
    "The trace was not written": _WRITER,
    "the trace was not written: the thread that recorded it": _LINES,
    "the thread that recorded ended": _LINES,
    "came to no end of its step": _LINES,
    "another profiler was started on another thread": _LINES,
    "something else stopped torch's profiler": _LINES,
    "it does not record": "test_lines.py::test_a_session_that_is_used_wrongly_says_so",
    "it was started on another thread": "test_lines.py::test_a_session_that_is_used_wrongly_says_so",
    "the disk is full, or torch could not write to it": _LINES,
    "MB are free on its disk": f"{_RUNNING}::test_a_disk_without_room_is_refused_before_the_program_runs",
    "the disk is full": _WRITER,
    "the process that writes it failed": _WRITER,
    "of its events could not be kept": _WRITER,
    "no permission to write to": "test_lines.py::test_a_folder_of_others_is_said",
    "so the trace is in": f"{_RUNNING}::test_what_a_store_does_not_take_is_kept_here",
    "no answer within": f"{_RUNNING}::test_a_store_that_does_not_answer_is_not_waited_for",
    "it cannot be tried": _WRITER,
    "not all traces were written within": _LINES,
    "on_done failed: ": _LINES,
    "step() came from another thread than the one that records; it is not counted": _LINES,
    "recording failed in ": _LINES,
    "the schedule failed at step ": _LINES,
    " (next: kinetoscope summary ": _LINES,
    "is not kept any longer": ("output/test_compile_log.py::test_a_log_that_cannot_be_written_costs_a_line"),
    "the times of all steps of ": "history/test_series.py::test_the_parts_of_steps_and_what_lies_between_them",
    "the history of process ": "history/test_series.py::test_a_full_disk_ends_the_history_and_nothing_else",
    " MB of the disk are free": "history/test_series.py::test_a_full_disk_ends_the_history_and_nothing_else",
    # snapshots of memory
    "this process uses no CUDA device": f"{_SNAPSHOTS}::test_a_job_without_a_device_is_as_without_us_and_says_so_once",
    "no snapshot of memory was taken": f"{_SNAPSHOTS}::test_a_job_without_a_device_is_as_without_us_and_says_so_once",
    "nothing records its history": f"{_SNAPSHOTS}::test_the_programs_own_history_stays_as_it_is",
    "has no history: no snapshot of memory is taken": f"{_SNAPSHOTS}::test_another_backend_of_the_allocator_is_named",
    "out of memory": f"{_SNAPSHOTS}::test_out_of_memory_leaves_a_snapshot_and_the_window_and_changes_nothing",
    " MB asked for on device ": f"{_SNAPSHOTS}::test_a_limit_of_the_process_is_no_memory_of_the_device",
    "MB of it free, and the process may have ": (
        f"{_SNAPSHOTS}::test_a_limit_of_the_process_is_no_memory_of_the_device"
    ),
    " MB free": f"{_SNAPSHOTS}::test_a_limit_of_the_process_is_no_memory_of_the_device",
    "this torch has no history of memory": f"{_SNAPSHOTS}::test_a_torch_without_a_history_is_refused",
    " of memory in ": f"{_SNAPSHOTS}::test_record_keeps_the_history_from_the_first_allocation_on",
    # the last line of `kinetoscope record`
    "says where the time goes": (
        "test_lines.py::test_the_trace_is_written_whatever_the_program_does_to_folders_and_terminal"
    ),
    "no trace was written: ": "test_lines.py::test_a_package_of_another_version_is_named",
    "nothing was recorded: ": _LAST,
    "nothing was recorded: nobody asked for it": _LAST,
    "nothing was recorded: fewer steps than --every": _LAST,
    "the program took fewer than the ": _LAST,
    "no range and no module of a class ": _LAST,
    "no process took a step: no optimizer of torch stepped": _LAST,
    "the program made an optimizer of torch, so its steps were waited for, and it took none": _LAST,
    "with exit code ": "test_lines.py::test_the_last_line_says_that_the_program_did_not_end_well",
    "nothing was recorded: the program ended in the midst of a window": (
        f"{_RUNNING}::test_a_program_that_dies_in_a_window_is_not_told_to_take_more_steps"
    ),
    "nothing was recorded: a profiler of the program was at work": (
        "session/test_others.py::test_where_its_profiler_is_always_there_we_say_so"
    ),
    " more there is none: ": "test_lines.py::test_a_window_that_could_not_be_written_is_counted_beside_one_that_was",
    "of a process that ended while it wrote": (
        f"{_RUNNING}::test_what_a_killed_program_left_is_finished_or_removed_and_said"
    ),
    "of an earlier run": f"{_RUNNING}::test_what_a_killed_program_left_is_finished_or_removed_and_said",
    " process ended before it was written": (
        f"{_RUNNING}::test_what_a_killed_program_left_is_finished_or_removed_and_said"
    ),
    "lost, as the program ended in the midst": f"{_RUNNING}::test_a_window_in_which_the_program_was_killed_is_counted",
    # what is refused
    "what is to be recorded?": _REFUSED,
    "--idle and --every exclude each other": _REFUSED,
    "--for records once, by time": _REFUSED,
    "is no share of the time": _REFUSED,
    "is no time to record": _REFUSED,
    "is the memory of one process": _REFUSED,
    "-o DIR names another place for traces": _REFUSED,
    "the command behind -- is run as it is": _REFUSED,
    # --every
    " of the time": (
        "always_on/test_always.py::test_windows_have_half_of_the_budget_where_counting_takes_it_all_and_that_is_said"
    ),
    "ms are so short that counting them takes": (
        "always_on/test_always.py::test_windows_have_half_of_the_budget_where_counting_takes_it_all_and_that_is_said"
    ),
    "s, for which the job would have to last": (
        "always_on/test_always.py::test_the_cost_is_that_of_the_whole_time_not_of_the_last_window"
    ),
    # a server that records itself (record/serving)
    "--server records a server that runs": "test_server.py::test_on_the_command_line",
    " says where ": "test_server.py::test_on_the_command_line",
    "the time goes": "test_server.py::test_on_the_command_line",
    "vLLM does not say where it writes": "test_lines.py::test_a_server_that_names_no_folder_is_asked_for_one",
    "holds characters that no key has": "test_server.py::test_the_key_of_the_server_is_sent_and_never_shown",
    "no whole answer within": _BAD,
    "it redirects to": _BAD,
    "neither vLLM nor SGLang": _BAD,
    "in the environment names it": _BAD,
    "no server answers": "test_server.py::test_an_address_that_leads_nowhere_is_said_in_one_line",
    "is cut off": _BAD,
    "it is empty": _BAD,
    "is an HTML page, no trace": _BAD,
    "is no trace: it is no JSON": _BAD,
    "it ends in the midst of an event": _BAD,
    "is no trace: it has no traceEvents": _BAD,
    "its compressed data ends in the midst": _BAD,
    "cannot be read": "test_server.py::test_a_file_that_vanishes_is_named",
    "start it with --profiler-config": _BAD,
    "it is too old, or a router stands before it: name the server itself": _BAD,
    "s, so they may hold fewer; send more requests, or see": _BAD,
    "writes into another folder or on another machine: copy the traces from there": _BAD,
    "no step ran, as no request came, or": _BAD,
    "if nobody records": _BAD,
    "s; send more requests, or see --timeout": _BAD,
    "s: send requests while it records, or give it a longer --timeout": "test_server.py::test_on_the_command_line",
    "no trace came into": _BAD,
    "did not confirm that it stopped, and may write none before it does": _BAD,
    "steps ran, so": _BAD,
    "is no address of a server: http://HOST:PORT": "test_server.py::test_what_is_no_address_is_said",
    "traces came: those of the other ranks are missing": _BAD,
    "/start_profile is not answered yet": _BAD,
    "); --for 2s records by time": _BAD,
    "/metrics is too slow to count": _BAD,
    ", so fewer may have run": _BAD,
    "something else follows its compressed data": "test_server.py::test_damage_within_compressed_data_is_named",
    "/metrics tells no steps any more": _BAD,
    "has no profiler (/start_profile": _BAD,
    "did not confirm that it records (/start_profile": _BAD,
    "refuses to profile": _BAD,
    "did not confirm that its profiler is off": _BAD,
    "counts its steps anew: it was started again while it recorded": _BAD,
    "no count of steps in it": _BAD,
    "is off; it writes into": _BAD,
    "SGLang answers so, too, where it had stopped by itself": _BAD,
    "SGLang no longer answers": _BAD,
    # `kinetoscope trigger`
    " from step ": _ASKED,
    "no answer from ": _ASKED,
    "the job has ended": _ASKED,
    "the job's user has to ask": _UNASKED,
    "no job that `kinetoscope record` runs puts its traces there": _UNASKED,
    "processes can be looked into on Linux only": _UNASKED,
    "there is no process": _UNASKED,
    "was not started by `kinetoscope record`": _UNASKED,
    # `kinetoscope daemon`
    "ended before its trace was there": f"{_DAEMON}::test_a_trace_that_does_not_come_is_said",
    "a trace has not come within": f"{_DAEMON}::test_a_trace_that_does_not_come_is_said",
    "s; start it with KINETO_USE_DAEMON=1": f"{_DAEMON}::test_a_daemon_that_nobody_asks_says_so",
    "the daemon needs Linux": f"{_DAEMON}::test_a_daemon_that_cannot_work_says_why",
    "another daemon, dynolog perhaps, answers": f"{_DAEMON}::test_two_daemons_exclude_each_other",
    "answering; `kinetoscope trigger": _OFFERS,
    "can be recorded": _OFFERS,
    "it ended before its trace was there": _OFFERS,
}
"""Fragments of lines, and the tests that provoke them."""

_NEEDS_A_DEVICE = "CUDA's allocator or its graphs alone come to this"

UNPROVOKED: Final[dict[str, str]] = {
    "; `kinetoscope summary {}` says who holds it": _NEEDS_A_DEVICE,
    "a store takes traces only": _NEEDS_A_DEVICE,
    "of the host's memory are free": _NEEDS_A_DEVICE,
    "memory was in use before its history began": _NEEDS_A_DEVICE,
    "no more captures of CUDA graphs are recorded": _NEEDS_A_DEVICE,
    "a capture of a CUDA graph was not kept": _NEEDS_A_DEVICE,
    "a capture of a CUDA graph was not recorded": _NEEDS_A_DEVICE,
}
"""Fragments of lines that no test provokes, and why."""

UNSAID: Final[dict[str, str]] = {
    "the job is ended": "in a note of a hang",
    "the interpreter stood still": "in a note of a hang",
    "before the first step": "in a note of a hang",
    "(most recent call first)": "in stacks, as faulthandler writes them",
    '  File "': "in stacks, as faulthandler writes them",
    "Not a gzipped file": "an error of Python that is said in other words",
    "vllm:iteration_tokens_total_count": "a pattern",
    "when there are global hooks": "a warning of torch that is filtered",
    "Kinetoscope counts the optimizer's steps": "in torch's log of graph breaks",
    "the time that was to be recorded is over": "the end of a window as it was asked for",
    "more than 4 MB": "in a sidecar",
    "the disk is nearly full": "becomes `the disk is full`",
    "torch's exporter wrote invalid JSON; written again by its exporter in Python": "in a sidecar",
    "torch wrote invalid JSON; each event was mended or left out": "in a sidecar",
    "must be 0 or more": "an error of the program that calls",
    "must be 0 (no limit) or more": "an error of the program that calls",
}
"""Fragments of texts that are no lines of the recorder, and what they are."""

ELSEWHERE: Final = ("record/trials/", "record/selftest.py", "record/output/validate_json.py")
"""Modules whose texts `kinetoscope try` or `selftest` prints, or a process of ours alone reads."""
