/** How far the node is behind the chain that it follows: at the start with a bar, and always for /readyz and eth_syncing. */
import { type Doubt, openDoubt } from '../../../engine/sources/doubt.ts'
import type { CatchUp, TrackerStatus } from '../../../engine/sources/upstream/tracker-types.ts'
import type { Syncing } from '../../../rpc/seam/ports.ts'
import type { NodeContext } from '../../process/context.ts'
import { type Progress, startProgress } from '../shared/progress.ts'

export interface CatchingUp {
  /** At the upstream's head, or as far as can be known: the upstreams are silent, or halted, or the thread has failed. */
  readonly done: Promise<void>
  readonly isDone: boolean
  update(status: TrackerStatus): void
  failed(): void
  status(): TrackerStatus | undefined
  readonly syncing: () => Syncing
  /** That upstreams which have answered tell no new block, and for how long. */
  silence(): readonly Doubt[]
  /** Why it does not follow, for /readyz. */
  behind(): readonly Doubt[]
}

/** Statuses that come before anything was asked. */
const SILENT_MS = 10_000
/** Without a new block, before it is said of the upstreams: three blocks of the slowest chain that has a name, and a second. */
const STANDS_MS = 7_000

/**
 * @param patienceMs for the first word of an upstream
 * @param now monotonic milliseconds
 */
export function createCatchUp(
  log: NodeContext['log'],
  patienceMs = SILENT_MS,
  now = () => performance.now(),
): CatchingUp {
  const done = Promise.withResolvers<void>()
  let newest: TrackerStatus | undefined
  let progress: { readonly bar: Progress; readonly to: number } | undefined
  let isDone = false
  const upstreams = watchUpstreams(now)
  const end = () => {
    isDone = true
    progress?.bar.stop()
    progress = undefined
    done.resolve()
  }
  // What the directory has is served meanwhile, and /readyz says the rest.
  const silence = setTimeout(() => newest?.head === undefined && end(), patienceMs).unref()

  function show(catchUp: CatchUp): void {
    const { from, at, to, blocksPerSecond, mgasPerSecond } = catchUp
    if (progress === undefined) {
      const isTerminal = process.stderr.isTTY
      progress = { bar: startProgress(to - from, { log, isTerminal, now }), to }
    }
    const speed = `${blocksPerSecond.toFixed(1)} blocks/s, ${mgasPerSecond.toFixed(1)} Mgas/s`
    progress.bar.update(Math.min(at - from, progress.to - from), `block ${at} of ${to}, ${speed}`)
  }

  return {
    done: done.promise,
    get isDone() {
      return isDone
    },
    update(status) {
      newest = status
      upstreams.update(status)
      if (isDone || status.head === undefined) return
      if (status.catchUp !== undefined && status.halted === undefined) return show(status.catchUp)
      clearTimeout(silence)
      end()
    },
    failed: end,
    status: () => newest,
    syncing() {
      const { catchUp } = newest ?? {}
      if (catchUp === undefined) return false
      const { from, at, to } = catchUp
      return { startingBlock: BigInt(from), currentBlock: BigInt(at), highestBlock: BigInt(to) }
    },
    silence: upstreams.silence,
    behind() {
      const { catchUp, canonical } = newest ?? {}
      if (catchUp !== undefined)
        return [openDoubt(`catching up: block ${catchUp.at} of ${catchUp.to}`)]
      if (upstreams.hasHeard()) return []
      const own = canonical === undefined ? 'our own head' : `our own head, block ${canonical}`
      return [openDoubt(`no upstream has answered since the start: answers are those of ${own}`)]
    },
  }
}

/** What upstreams have told, and when. */
function watchUpstreams(now: () => number) {
  /** An upstream has told its head since the start. */
  let hasHeard = false
  /** The newest block that any upstream has told of, and since when. */
  let told = { number: -1, atMs: now() }
  return {
    hasHeard: () => hasHeard,
    update({ head, upstreams }: TrackerStatus): void {
      hasHeard ||= head !== undefined
      const number = Math.max(...upstreams.map(({ head = -1 }) => head))
      if (number !== told.number) told = { number, atMs: now() }
    },
    silence(): readonly Doubt[] {
      const silentMs = now() - told.atMs
      if (!hasHeard || silentMs <= STANDS_MS) return []
      const seconds = (silentMs / 1_000).toFixed(1)
      const text = `the upstreams have told of no new block for ${seconds} s, the newest is ${told.number}`
      return [openDoubt(text)]
    },
  }
}
