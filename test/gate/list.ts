/**
 * This list has the checks from outside, with their flags in the gate and in the full run. The
 * rules that each check proves are in docs/adr/0062-a-gate-and-a-full-run.md.
 */

import { randomInt } from 'node:crypto'

export type Row = {
  readonly name: string
  /** The script of package.json differs from the name for some rows only. */
  readonly script?: string
  /** These are the flags in the gate; a row without them does not run in the gate. */
  readonly gate?: string
  readonly full: string
}

/** Makes the row of a check that has the same flags in the gate and in the full run. */
const always = (name: string, flags = '', script = name): Row => ({
  name,
  script,
  gate: flags,
  full: flags,
})

/**
 * These compute and wait for nothing. They run one after another at a low priority, beside all
 * others. They take the processor time that the others leave.
 */
export const COMPUTED: readonly Row[] = [
  always('conformance-data', '--only stateTests,corpora,imported', 'conformance'),
  always('simulate', '--seeds 300'),
  always('fuzz', '--programs 8000 --seed 1 --engines fast:precise,fast:stream'),
  always('fuzz-reference', '--programs 2000 --seed 2 --engines reference,fast', 'fuzz'),
]

/**
 * Three of these run at a time, because most wait for blocks half of their time. The longest start
 * first.
 */
export const AT_ONCE: readonly Row[] = [
  { name: 'follow-test', gate: '--short --together 2', full: '--together 2' },
  always('conformance', '--except stateTests,corpora,imported'),
  always('overload', '--short'),
  always('model', '--short --seed 1'),
  {
    name: 'page',
    gate: '--only outside,way,controls,inside,sizes,restart,follower',
    full: '',
  },
  { name: 'package', gate: '--short', full: '' },
  { name: 'records', gate: '--short --seed 1', full: '--seed 1' },
  { name: 'scale', gate: '--seed 1 --part proxy,filters,together', full: '--seed 1' },
  { name: 'torture', full: '--short' },
  { name: 'places', gate: '--seed 1 --reads 2000', full: '--seed 1' },
  always('bootstrap', '--seed 1'),
  { name: 'garbage', gate: '--seed 1 --seconds 20', full: '--seed 1' },
  { name: 'operate', gate: '--short --seed 1', full: '--seed 1' },
  always('deployed'),
  { name: 'kill', gate: '--times 3', full: '' },
  always('crash', '--short'),
  always('limiter'),
  always('limiter-front-threads', '--front-threads 3', 'limiter'),
  always('front-threads'),
  always('limit-store'),
  always('subscribers', '--short'),
  { name: 'cost', gate: '--seconds 30 --seed 1', full: '--seconds 60 --seed 1' },
]

/**
 * These run one after another, because they are compared with a reference or load the whole
 * machine.
 */
export const ALONE: readonly Row[] = [
  { name: 'hostile', gate: '--seconds 1 --seed 1', full: '--short --seed 1' },
  {
    name: 'hostile-node',
    script: 'hostile',
    full: '--short --seed 1 --part rows --http node',
  },
  { name: 'soak', full: '--short' },
]

/** These checks take hours and run for a release. */
export const LONG: readonly Row[] = [
  { name: 'soak-hour', script: 'soak', full: '' },
  { name: 'simulate-many', script: 'simulate', full: `--seeds 10000 --from ${randomInt(2 ** 40)}` },
  { name: 'simulate-mutants', script: 'simulate', full: '--mutants' },
  { name: 'fuzz-mutants', script: 'fuzz', full: '--mutants' },
  { name: 'cost-planted', script: 'cost', full: '--planted' },
  { name: 'torture-rules', script: 'torture', full: '--rules' },
  { name: 'model-full', script: 'model', full: '' },
  { name: 'scale-chaos', script: 'scale', full: '--part chaos --seconds 600' },
]
