# SPDX-License-Identifier: GPL-2.0-or-later
"""The frame of all benchmarks: what they share, so that figures compare.

    store   results of single runs, kept per commit, so that a run resumes
    jobs    boots: several runs in one guest, several guests at once
    scene   what is done in a guest, and read from it
    cost    what a gain was paid with, and whether anybody was harmed
    rows    a figure with its goal; medians, and the worst beside them
    report  the table for people, build/bench/NAME.json, the exit status

A benchmark NAME is a program tests/bench/NAME, run by `make bench-NAME`. It
names jobs (jobs.Job), runs them (jobs.run_all), makes rows of what the store
then holds, and ends with report.finish(). README.md beside has the rules.
"""
