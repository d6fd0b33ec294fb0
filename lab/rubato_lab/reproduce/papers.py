# SPDX-License-Identifier: Apache-2.0
"""The papers, each with the figures that are run and those that cannot be had."""

from dataclasses import dataclass

from rubato_lab.reproduce import (altocumulus, coresync, coresync_more, persephone, sbb, synergy)


@dataclass(frozen=True)
class Paper:
    """`missing` are (figure or number, what is missing)."""

    name: str
    figures: tuple
    missing: tuple


def papers():
    return (Paper("Synergy", synergy.figures(), synergy.MISSING),
            Paper("Persephone", persephone.figures(), persephone.MISSING),
            Paper("SBB", sbb.figures(), sbb.MISSING),
            Paper("Altocumulus", altocumulus.figures(), altocumulus.MISSING),
            Paper("CoreSync", coresync.figures() + coresync_more.figures(), coresync.MISSING))


def catalogue():
    """All figures by id."""
    return {figure.id: figure for paper in papers() for figure in paper.figures}
