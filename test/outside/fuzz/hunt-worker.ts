/** The thread of one mutant: programs until it says something that the unchanged engine does not. */
import { parentPort, workerData } from 'node:worker_threads'
import type { Engine } from '../../../engine/evm/engine.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { type HuntAnswer, type HuntTask, MUTANT_SIDE, PROGRAMS, SESSIONS, SIDE } from './hunt.ts'
import { mutantEngine } from './mutants.ts'
import { search } from './search.ts'

const SHRINK_MS = 1_000
const { kind, mutant, module, seed, programs, progress }: HuntTask = workerData

/** Notes whose session is open. */
const watched = (engine: Engine, side: number): Engine => ({
  ...engine,
  openSession(...given) {
    Atomics.store(progress, SIDE, side)
    Atomics.add(progress, SESSIONS, 1)
    return engine.openSession(...given)
  },
})

const tested =
  kind === 'reference'
    ? await mutantEngine(mutant)
    : engineByName('fast', { module: new WebAssembly.Module(module!.slice()), tier: 'stream' })
const pair = {
  yardstick: watched(engineByName('fast', { tier: 'precise' }), 1),
  tested: watched(tested, MUTANT_SIDE),
  repeats: 0,
}
const searching = search(pair, { seed, now: () => performance.now(), shrinkMs: SHRINK_MS })
let answer: HuntAnswer = { one: undefined }
for (let tried = 1; tried <= programs && answer.one === undefined; tried++) {
  const next = await searching.next()
  // What the yardstick says wrong by itself finds no mutant.
  if (next !== undefined && next.difference.yardstick !== next.difference.tested)
    answer = { one: next.one }
  Atomics.store(progress, PROGRAMS, tried)
}
parentPort!.postMessage(answer)
