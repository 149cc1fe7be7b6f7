/**
 * Measures the distance between the node and the head of its chain. A progress bar displays it at
 * the start; /readyz and eth_syncing report it always.
 */
import { openSuspicion, type Suspicion } from '../../../engine/sources/suspicion.ts'
import type { CatchUp, TrackerStatus } from '../../../engine/sources/upstream/tracker-types.ts'
import type { Syncing } from '../../../rpc/core/ports.ts'
import type { NodeContext } from '../../process/context.ts'
import { type Progress, startProgress } from '../shared/progress.ts'

export interface CatchingUp {
  /**
   * Resolves at the upstream's head, or if upstreams are silent or halted, or if the thread has
   * failed.
   */
  readonly done: Promise<void>
  readonly isDone: boolean
  update(status: TrackerStatus): void
  failed(): void
  status(): TrackerStatus | undefined
  readonly syncing: () => Syncing
  /** Reports upstreams that have responded once, but have no new block, and for how long. */
  silence(): readonly Suspicion[]
  /** The reason why the node lags, for /readyz. */
  lagging(): readonly Suspicion[]
}

/** The start waits this long for the first response of an upstream. */
const SILENT_MS = 10_000
/**
 * Upstreams are reported after three blocks of the slowest named chain, and a second, without a new
 * block.
 */
const STANDS_MS = 7_000

/**
 * @param timeoutMs how long the start waits for the first response of an upstream
 * @param now monotonic milliseconds
 */
export function createCatchUp(
  log: NodeContext['log'],
  timeoutMs = SILENT_MS,
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
  // After the timeout the node serves the stored chain, and /readyz reports the rest.
  const silence = setTimeout(() => newest?.head === undefined && end(), timeoutMs).unref()

  function display(catchUp: CatchUp): void {
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
      if (status.catchUp !== undefined && status.halted === undefined)
        return display(status.catchUp)
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
    lagging() {
      const { catchUp, canonical } = newest ?? {}
      if (catchUp !== undefined)
        return [openSuspicion(`catching up: block ${catchUp.at} of ${catchUp.to}`)]
      if (upstreams.hasReceived()) return []
      const own = canonical === undefined ? 'our own head' : `our own head, block ${canonical}`
      return [
        openSuspicion(`no upstream has answered since the start: answers are those of ${own}`),
      ]
    },
  }
}

/** Tracks the newest head of all upstreams and when it arrived. */
function watchUpstreams(now: () => number) {
  /** An upstream has reported its head since the start. */
  let hasReceived = false
  /** The newest block that any upstream has reported, and the time of its arrival. */
  let newestHead = { number: -1, atMs: now() }
  return {
    hasReceived: () => hasReceived,
    update({ head, upstreams }: TrackerStatus): void {
      hasReceived ||= head !== undefined
      const number = Math.max(...upstreams.map(({ head = -1 }) => head))
      if (number !== newestHead.number) newestHead = { number, atMs: now() }
    },
    silence(): readonly Suspicion[] {
      const silentMs = now() - newestHead.atMs
      if (!hasReceived || silentMs <= STANDS_MS) return []
      const seconds = (silentMs / 1_000).toFixed(1)
      const text = `the upstreams have told of no new block for ${seconds} s, the newest is ${newestHead.number}`
      return [openSuspicion(text)]
    },
  }
}
