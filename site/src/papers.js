// SPDX-License-Identifier: Apache-2.0
//
// Questions of the papers' evaluations; docs/REPRODUCTION.md holds our figures beside theirs.
import { DEFAULTS } from "./question.js";

const THESIS = "quantum_factor=2 thresh_wqd=0us long_turn=0us ema_clip=0 ema_shift=1 " +
               "quantum_min=0us quantum_max=1s";

const paper = (title, question) => ({ title, question: { ...DEFAULTS, ...question } });

export const PAPERS = [
  paper("SYNERGY, Fig. 6.1: high bimodal on 14 workers",
        { policies: ["synergy", "shinjuku", "tinyquanta", "cfcfs"], workers: 14,
          workload: "high-bimodal", costs: "synergy-testbed", load: 0.76, set: THESIS }),
  paper("SYNERGY, Fig. 6.2: extreme bimodal on 14 workers",
        { policies: ["synergy", "shinjuku", "tinyquanta", "cfcfs"], workers: 14, requests: 1000000,
          workload: "extreme-bimodal", costs: "synergy-testbed", load: 0.81, set: THESIS }),
  paper("SYNERGY, Fig. 6.3: ZippyDB on 14 workers",
        { policies: ["synergy", "shinjuku", "tinyquanta", "darc"], workers: 14,
          workload: "zippydb", costs: "synergy-testbed", load: 0.81, set: THESIS }),
  paper("Perséphone, Fig. 1: extreme bimodal on 16 workers",
        { policies: ["darc", "cfcfs", "fcfs", "ps"], workers: 16, requests: 1000000,
          workload: "extreme-bimodal", costs: "persephone-fig1", load: 0.7,
          slo: "p999_slowdown=10" }),
  paper("Perséphone, Fig. 6: TPC-C on 14 workers",
        { policies: ["darc", "cfcfs", "steal", "ps"], workers: 14, workload: "tpcc", load: 0.85,
          slo: "p999_slowdown=10", requests: 1000000 }),
  paper("SBB, Fig. 8: one microsecond each on 16 workers",
        { policies: ["sbb", "steal", "fcfs", "cfcfs"], workers: 16, workload: "fixed-1",
          costs: "sbb-testbed", load: 0.8 }),
  paper("ALTOCUMULUS, Fig. 10: 99.5 % of 0.5 µs on one group",
        { policies: ["altocumulus", "zygos", "fcfs", "ps"],
          workers: 15, workload: "extreme-bimodal", costs: "ac-int", load: 0.6, requests: 1000000,
          slo: "p99_latency=300us", metric: "latency" }),
];
