/** One mutant after another against the unchanged engine, each in a thread of its own, so that one that hangs can be ended. */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { compiled } from '../../engine/evm/fast/compiled.ts'
import type { FuzzCase } from './case.ts'
import { FAST_MUTANTS } from './fast-mutants.ts'
import { MUTANTS, type Mutant } from './mutants.ts'

/** Which engine it is a copy of. */
export type Kind = 'reference' | 'fast'
export type Hunted = {
  readonly kind: Kind
  readonly name: string
  /** How it was found: by what it said, or by saying nothing. */
  readonly found: 'difference' | 'hang' | undefined
  /** That shows it. */
  readonly one: FuzzCase | undefined
  readonly programs: number
  readonly seconds: number
}

/** What the thread is given. */
export type HuntTask = {
  readonly kind: Kind
  readonly mutant: Mutant
  /** Of a fast one. */
  readonly module: Uint8Array | undefined
  readonly seed: number
  readonly programs: number
  /** Sessions that were opened, whose the last one is, programs that were tried. */
  readonly progress: Int32Array<SharedArrayBuffer>
}
export const [SESSIONS, SIDE, PROGRAMS] = [0, 1, 2] as const
/** In SIDE: the mutant's own. */
export const MUTANT_SIDE = 2
export type HuntAnswer = { readonly one: FuzzCase | undefined }

/** Processor time of its thread; on the clock several times as much, should others want the processors. */
const MOST_MS = 60_000
const MOST_CLOCK_MS = 600_000
/** Processor time in one session of the mutant beyond which it hangs: the longest takes two seconds. */
const HANG_MS = 15_000
const LOOK_MS = 500
const MOST_AT_ONCE = 4

/** All whose name contains `only`. */
export async function hunt(options: {
  readonly seed: number
  readonly programs: number
  readonly only: string
  readonly tell: (hunted: Hunted) => void
}): Promise<void> {
  const { seed, programs, only, tell } = options
  const all = [
    ...FAST_MUTANTS.map((mutant) => ({ kind: 'fast' as const, mutant })),
    ...MUTANTS.map((mutant) => ({ kind: 'reference' as const, mutant })),
  ]
  const left = all.filter(({ mutant }) => mutant.name.includes(only)).values()
  const hunter = async () => {
    for (const one of left) tell(await huntOne({ ...one, seed, programs }))
  }
  const atOnce = Math.min(availableParallelism(), MOST_AT_ONCE)
  await Promise.all(Array.from({ length: atOnce }, hunter))
}

async function huntOne(options: Omit<HuntTask, 'module' | 'progress'>): Promise<Hunted> {
  const { kind, mutant } = options
  const module =
    kind === 'fast' ? await compiled('--edits', JSON.stringify(mutant.edits)) : undefined
  const progress = new Int32Array(new SharedArrayBuffer(12))
  const workerData: HuntTask = { ...options, module, progress }
  const started = performance.now()
  const worker = new Worker(new URL('hunt-worker.ts', import.meta.url), { workerData })
  const watch = silence(worker, progress)
  const answer = await Promise.race([answerOf(worker), watch.heard])
  watch.stop()
  await worker.terminate()
  const isHang = answer === 'hang'
  const one = typeof answer === 'string' ? undefined : answer.one
  return {
    ...{ kind, name: mutant.name, one },
    found: isHang ? 'hang' : one === undefined ? undefined : 'difference',
    programs: progress[PROGRAMS]!,
    seconds: (performance.now() - started) / 1_000,
  }
}

function answerOf(worker: Worker): Promise<HuntAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<HuntAnswer>()
  worker.once('message', resolve)
  worker.once('error', reject)
  worker.once('exit', () => reject(new Error('the thread ended without an answer')))
  return promise
}

/** Ends where the mutant does not come back, or where the time is over. */
function silence(worker: Worker, progress: Int32Array) {
  const { promise: heard, resolve } = Promise.withResolvers<'hang' | 'late'>()
  const until = performance.now() + MOST_CLOCK_MS
  let [last, since] = [-1, 0]
  const look = async () => {
    const sessions = Atomics.load(progress, SESSIONS)
    const usage = await worker.cpuUsage().catch(() => undefined)
    const usedMs = usage === undefined ? 0 : (usage.user + usage.system) / 1_000
    if (sessions !== last) [last, since] = [sessions, usedMs]
    const isMutants = Atomics.load(progress, SIDE) === MUTANT_SIDE
    if (usedMs - since > HANG_MS && isMutants) resolve('hang')
    else if (usedMs > MOST_MS || performance.now() > until) resolve('late')
  }
  const timer = setInterval(() => void look(), LOOK_MS)
  return { heard, stop: () => clearInterval(timer) }
}
