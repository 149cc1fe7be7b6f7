/**
 * Each mutant runs against the unchanged engine in its own thread, so that a mutant that hangs can
 * be ended.
 */
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { compiled } from '../../engine/evm/fast/compiled.ts'
import type { FuzzCase } from './case.ts'
import { FAST_MUTANTS } from './fast-mutants.ts'
import { MUTANTS, type Mutant } from './mutants.ts'

/** The engine of which the mutant is a copy. */
export type Kind = 'reference' | 'fast'
export type Hunted = {
  readonly kind: Kind
  readonly name: string
  /** A mutant is found by a difference or by a hang. */
  readonly found: 'difference' | 'hang' | undefined
  /** The case that shows the mutant. */
  readonly one: FuzzCase | undefined
  readonly programs: number
  readonly seconds: number
}

/** The input of the thread. */
export type HuntTask = {
  readonly kind: Kind
  readonly mutant: Mutant
  /** The compiled module of a fast mutant. */
  readonly module: Uint8Array | undefined
  readonly seed: number
  readonly programs: number
  /** The words are: opened sessions, the owner of the last one, and programs that were tried. */
  readonly progress: Int32Array<SharedArrayBuffer>
}
export const [SESSIONS, SIDE, PROGRAMS] = [0, 1, 2] as const
/** In SIDE this value stands for the mutant. */
export const MUTANT_SIDE = 2
export type HuntResponse = { readonly one: FuzzCase | undefined }

/**
 * The limit of the thread's processor time; the wall clock allows several times as much for a busy
 * machine.
 */
const MAX_MS = 60_000
const MAX_CLOCK_MS = 600_000
/**
 * A mutant hangs after this much processor time in one session; the longest session takes two
 * seconds.
 */
const HANG_MS = 15_000
const CHECK_MS = 500
const MAX_AT_ONCE = 4

/** Tests all mutants whose names contain `only`. */
export async function hunt(options: {
  readonly seed: number
  readonly programs: number
  readonly only: string
  readonly onHunted: (hunted: Hunted) => void
}): Promise<void> {
  const { seed, programs, only, onHunted } = options
  const all = [
    ...FAST_MUTANTS.map((mutant) => ({ kind: 'fast' as const, mutant })),
    ...MUTANTS.map((mutant) => ({ kind: 'reference' as const, mutant })),
  ]
  const left = all.filter(({ mutant }) => mutant.name.includes(only)).values()
  const hunter = async () => {
    for (const one of left) onHunted(await huntOne({ ...one, seed, programs }))
  }
  const atOnce = Math.min(availableParallelism(), MAX_AT_ONCE)
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
  const response = await Promise.race([responseOf(worker), watch.received])
  watch.stop()
  await worker.terminate()
  const isHang = response === 'hang'
  const one = typeof response === 'string' ? undefined : response.one
  return {
    kind,
    name: mutant.name,
    one,
    found: isHang ? 'hang' : one === undefined ? undefined : 'difference',
    programs: progress[PROGRAMS]!,
    seconds: (performance.now() - started) / 1_000,
  }
}

function responseOf(worker: Worker): Promise<HuntResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<HuntResponse>()
  worker.once('message', resolve)
  worker.once('error', reject)
  worker.once('exit', () => reject(new Error('the thread ended without an answer')))
  return promise
}

/** Resolves when the mutant hangs, or when the time is over. */
function silence(worker: Worker, progress: Int32Array) {
  const { promise: received, resolve } = Promise.withResolvers<'hang' | 'late'>()
  const until = performance.now() + MAX_CLOCK_MS
  let [last, since] = [-1, 0]
  const check = async () => {
    const sessions = Atomics.load(progress, SESSIONS)
    const usage = await worker.cpuUsage().catch(() => undefined)
    const usedMs = usage === undefined ? 0 : (usage.user + usage.system) / 1_000
    if (sessions !== last) [last, since] = [sessions, usedMs]
    const isMutants = Atomics.load(progress, SIDE) === MUTANT_SIDE
    if (usedMs - since > HANG_MS && isMutants) resolve('hang')
    else if (usedMs > MAX_MS || performance.now() > until) resolve('late')
  }
  const timer = setInterval(() => void check(), CHECK_MS)
  return { received, stop: () => clearInterval(timer) }
}
