/**
 * A following node that is recorded until its time is over, its file is full, or a signal ends it.
 */
import { readFileSync, rmSync } from 'node:fs'
import { NETWORKS } from '../../../engine/chainspec/networks.ts'
import { JournalError } from '../../../engine/storage/directory/journal.ts'
import type { ConfigOf } from '../../config/command.ts'
import { version } from '../../config/config.ts'
import { forkTimesOf } from '../../config/fork-time.ts'
import { limitsGiven } from '../../config/options.ts'
import { KeystoreError } from '../../front/keystore.ts'
import { startNode } from '../../node/start.ts'
import { StartError } from '../../process/context.ts'
import type { Head, RequestBounds } from '../../record/lines.ts'
import { openRecorder, type Recorded, type Recorder } from '../../record/recorder.ts'
import { type RequestTaking, takeRequests } from '../../record/requests.ts'
import { encodeLine } from '../../record/values.ts'
import { print } from '../shared/print.ts'
import { type Process, runProcess } from '../shared/process.ts'
import { startProgress } from '../shared/progress.ts'
import type { FLAGS, FollowConfig, FollowDefaults, RECORD_FLAGS } from './flags.ts'
import type { FollowStart } from './prepare.ts'
import { DEFAULT_CHAIN, followRole } from './role.ts'

type RecordConfig = ConfigOf<typeof FLAGS & typeof RECORD_FLAGS, FollowDefaults>

export function runRecord(config: RecordConfig): Promise<void> {
  return runProcess(config, [JournalError, KeystoreError], async (process) => {
    const { lifecycle, end, fail, log } = process
    const recorder = await open(config, (reason) => {
      if (reason === 'bytes' || reason === 'seconds') void end(0)
      else fail(`the recording ends: ${WHY[reason]}`)
    })
    const { requests: perSecond, requestBytes: bytesPerSecond } = config
    const bounds = perSecond === 'off' ? undefined : { perSecond, bytesPerSecond }
    const requests = bounds && takeRequests({ bounds, emitLines: recorder.add })
    let hide = () => {}
    // The recorder closes after the writer, which sends its last lines when it stops.
    const close = async () => {
      hide()
      requests?.close()
      const recorded = await recorder.close()
      // An empty file is removed, because the start was refused and the next try may use the name.
      if (recorded.bytes === 0) rmSync(config.out, { force: true })
      await said(config, recorded)
    }
    lifecycle.onStop('the recording', close, { minMs: CLOSE_MS })
    log.info({ file: config.out, seconds: config.seconds }, 'the input of the node is recorded')
    await start(config, process, { recorder, bounds, requests })
    const { seconds, megabytes } = config
    const bytes = () => recorder.bytes
    hide = displayRecording({ seconds, megabytes, bytes }, { log, isTerminal: isOnTerminal() })
  })
}

const isOnTerminal = (): boolean => process.stderr.isTTY === true
/** Time that is reserved for writing the rest, however long earlier parts take. */
const CLOSE_MS = 700
const WHY = {
  slow: 'the disk or the processor is too slow for the input',
  failed: 'its file cannot be written',
}

/** @throws {StartError} */
async function open(
  { out, megabytes, seconds }: RecordConfig,
  onFull: Parameters<typeof openRecorder>[0]['onFull'],
): Promise<Recorder> {
  const bounds = { maxBytes: megabytes * 2 ** 20, maxMs: seconds * 1_000 }
  try {
    return await openRecorder({ path: out, ...bounds, onFull })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EEXIST')
      throw new StartError(`${out} exists already: give another --out, or remove the file`)
    throw new StartError(`--out ${out} cannot be created: ${message}`)
  }
}

type Recording = {
  readonly recorder: Recorder
  readonly bounds: RequestBounds | undefined
  readonly requests: RequestTaking | undefined
}

async function start(
  config: RecordConfig,
  process: Process,
  { recorder, bounds, requests }: Recording,
): Promise<void> {
  const onStarted = (started: FollowStart) => {
    const head = { ...headOf(config, started), requests: bounds }
    recorder.add(new TextEncoder().encode(`${encodeLine(head)}\n`))
  }
  const recording = { type: 'record', onLines: recorder.add, requestContexts: requests } as const
  const role = followRole(config, { recording, onStarted, isQuiet: config.json })
  // Recording of requests works with one front thread only.
  const frontThreads = requests === undefined ? config.frontThreads : 1
  await startNode({ config: { ...config, frontThreads }, ...process }, role)
}

/** The first line of the recording, from which a replay starts. */
function headOf(config: FollowConfig, started: FollowStart): Omit<Head, 'requests'> {
  const { chain = DEFAULT_CHAIN, heldFlashblocks, latest, methods, traceModeOptional } = config
  const { mode, start } = started
  const limits = limitsGiven(config.limits)
  return {
    type: 'head',
    version: version(),
    chain: NETWORKS.has(chain) ? { name: chain } : { genesis: readFileSync(chain, 'utf8') },
    forkTimes: forkTimesOf(config.forkTime),
    mode,
    start,
    heldFlashblocks,
    serving: { latest, methods, traceModeOptional, limits },
  }
}

function said({ out, json }: RecordConfig, recorded: Recorded): Promise<void> {
  const { bytes, sections, full } = recorded
  if (json) return print(`${JSON.stringify({ file: out, bytes, sections, full: full ?? null })}\n`)
  if (bytes === 0) return print('nothing was recorded\n')
  const why = full === undefined ? '' : `, ${FULL[full]}`
  return print(
    `${out}: ${bytes.toLocaleString('en-US')} bytes${why}; run it again with flashnode replay ${out}\n`,
  )
}
const FULL = {
  bytes: 'the maximum of --megabytes',
  seconds: 'the duration of --seconds',
  slow: WHY.slow,
  failed: WHY.failed,
}

type RecordingProgress = {
  readonly seconds: number
  readonly megabytes: number
  readonly bytes: () => number
}

const BAR_MS = 500
/** The log gets a line only this often, because it has other lines too. */
const LINE_MS = 30_000

/**
 * Displays the progress of a recording: its time, and the bytes in its file.
 * @returns a function that ends the display
 */
export function displayRecording(
  { seconds, megabytes, bytes }: RecordingProgress,
  context: Omit<Parameters<typeof startProgress>[1], 'now'>,
): () => void {
  const now = () => performance.now()
  const started = now()
  const progress = startProgress(1_000 * seconds, { ...context, now })
  const timer = setInterval(
    () => {
      const taken = (bytes() / 2 ** 20).toFixed(1)
      const passedMs = Math.min(now() - started, 1_000 * seconds)
      progress.update(passedMs, `${taken} of ${megabytes} MB are recorded`)
    },
    context.isTerminal ? BAR_MS : LINE_MS,
  )
  timer.unref()
  return () => {
    clearInterval(timer)
    progress.stop()
  }
}
