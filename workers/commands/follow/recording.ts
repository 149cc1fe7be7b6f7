/** A node that follows and is recorded: until its time is over, its file is full, or a signal ends it. */
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
import { type Process, runProcess } from '../shared/process.ts'
import { say } from '../shared/said.ts'
import type { Begun } from './begin.ts'
import type { FLAGS, FollowConfig, FollowDefaults, RECORD_FLAGS } from './flags.ts'
import { showRecording } from './record-progress.ts'
import { DEFAULT_CHAIN, followRole } from './role.ts'

type RecordConfig = ConfigOf<typeof FLAGS & typeof RECORD_FLAGS, FollowDefaults>

export function runRecord(config: RecordConfig): Promise<void> {
  return runProcess(config, [JournalError, KeystoreError], async (process) => {
    const { lifecycle, end, fail, log } = process
    const recorder = await open(config, (reason) => {
      if (reason === 'bytes' || reason === 'seconds') void end(0)
      else fail(`the record ends: ${WHY[reason]}`)
    })
    const { requests: perSecond, requestBytes: bytesPerSecond } = config
    const bounds = perSecond === 'off' ? undefined : { perSecond, bytesPerSecond }
    const requests = bounds && takeRequests({ bounds, tellLines: recorder.add })
    let hide = () => {}
    // Closed after the writer, which tells its last lines when it stops.
    const close = async () => {
      hide()
      requests?.close()
      const recorded = await recorder.close()
      // Its start was refused: the next one may have the name.
      if (recorded.bytes === 0) rmSync(config.out, { force: true })
      await said(config, recorded)
    }
    lifecycle.onStop('the record', close, { leastMs: CLOSE_MS })
    log.info({ file: config.out, seconds: config.seconds }, 'what the node is told is recorded')
    await start(config, process, { recorder, bounds, requests })
    const { seconds, megabytes } = config
    const bytes = () => recorder.bytes
    hide = showRecording({ seconds, megabytes, bytes }, { log, isTerminal: isOnTerminal() })
  })
}

const isOnTerminal = (): boolean => process.stderr.isTTY === true
/** Kept for what is still to be written, whatever the parts before it take. */
const CLOSE_MS = 700
const WHY = {
  slow: 'the disk or the processor is too slow for what comes',
  failed: 'its file cannot be written',
}

/** @throws {StartError} */
async function open(
  { out, megabytes, seconds }: RecordConfig,
  onFull: Parameters<typeof openRecorder>[0]['onFull'],
): Promise<Recorder> {
  const bounds = { mostBytes: megabytes * 2 ** 20, mostMs: seconds * 1_000 }
  try {
    return await openRecorder({ path: out, ...bounds, onFull })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EEXIST')
      throw new StartError(`${out} is there already: give --out another name, or remove it`)
    throw new StartError(`--out ${out} cannot be made: ${message}`)
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
  const onBegun = (begun: Begun) => {
    const head = { ...headOf(config, begun), requests: bounds }
    recorder.add(new TextEncoder().encode(`${encodeLine(head)}\n`))
  }
  const tape = { type: 'record', onLines: recorder.add, courses: requests } as const
  const role = followRole(config, { tape, onBegun, isQuiet: config.json })
  // Whoever takes requests down stands before one front.
  const frontThreads = requests === undefined ? config.frontThreads : 1
  await startNode({ config: { ...config, frontThreads }, ...process }, role)
}

/** What a replay begins with. */
function headOf(config: FollowConfig, begun: Begun): Omit<Head, 'requests'> {
  const { chain = DEFAULT_CHAIN, heldFlashblocks, latest, methods, traceModeOptional } = config
  const { mode, start } = begun
  const limits = limitsGiven(config.limits)
  return {
    type: 'head',
    version: version(),
    chain: NETWORKS.has(chain) ? { name: chain } : { genesis: readFileSync(chain, 'utf8') },
    forkTimes: forkTimesOf(config.forkTime),
    ...{ mode, start, heldFlashblocks },
    serving: { latest, methods, traceModeOptional, limits },
  }
}

function said({ out, json }: RecordConfig, recorded: Recorded): Promise<void> {
  const { bytes, sections, full } = recorded
  if (json) return say(`${JSON.stringify({ file: out, bytes, sections, full: full ?? null })}\n`)
  if (bytes === 0) return say('nothing was recorded\n')
  const why = full === undefined ? '' : `, ${FULL[full]}`
  return say(
    `${out}: ${bytes.toLocaleString('en-US')} bytes${why}; flashnode replay ${out} runs it again\n`,
  )
}
const FULL = {
  bytes: 'as many as --megabytes allows',
  seconds: 'as long as --seconds says',
  slow: WHY.slow,
  failed: WHY.failed,
}
