/**
 * This thread tests one mutant: it runs programs until the mutant differs from the unchanged
 * engine.
 */
import { parentPort, workerData } from 'node:worker_threads'
import type { Engine } from '../../../engine/evm/engine.ts'
import { engineByName } from '../../../engine/evm/engines/registry.ts'
import { type HuntResponse, type HuntTask, MUTANT_SIDE, PROGRAMS, SESSIONS, SIDE } from './hunt.ts'
import { mutantEngine } from './mutants.ts'
import { search } from './search.ts'

const SHRINK_MS = 1_000
const { kind, mutant, module, seed, programs, progress }: HuntTask = workerData

/** Wraps an engine and records whose session is open. */
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
let response: HuntResponse = { one: undefined }
for (let tried = 1; tried <= programs && response.one === undefined; tried++) {
  const next = await searching.next()
  // A fault that the yardstick shows by itself does not find a mutant.
  if (next !== undefined && next.difference.yardstick !== next.difference.tested)
    response = { one: next.one }
  Atomics.store(progress, PROGRAMS, tried)
}
parentPort!.postMessage(response)
