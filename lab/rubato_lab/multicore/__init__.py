# SPDX-License-Identifier: Apache-2.0
"""`make multicore`: throughput and tail of each policy against the number of workers, through the
loopback datapath and over TCP, on a machine with 4 to 128 cores.

topology.py says who runs where, cells.py what is measured and in which order, loopback.py and
tcp.py measure one cell once, noise.py and spin.py watch the machine, record.py and figure.py write
what was found, options.py and main.py are the command line."""
