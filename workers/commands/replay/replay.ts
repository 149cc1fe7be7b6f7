/** `flashnode replay`: to the end of the record or to a flashblock of it, and what came of it. */
import { statSync } from 'node:fs'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import { JournalError } from '../../../engine/storage/directory/journal.ts'
import { LazyStartError } from '../../../engine/storage/lazy/start.ts'
import type { ConfigOf } from '../../config/command.ts'
import type { NodeDefaults } from '../../config/serving.ts'
import { startNode } from '../../node/start.ts'
import type { Head, Place, ReplayEnd } from '../../record/lines.ts'
import { openRecord } from '../../record/reading.ts'
import { RecordError } from '../../record/sections.ts'
import { startParts } from '../shared/parts.ts'
import { type Process, runProcess } from '../shared/process.ts'
import { say } from '../shared/said.ts'
import { table } from '../shared/table.ts'
import type { FLAGS } from './flags.ts'
import { replayRole } from './role.ts'

type ReplayConfig = ConfigOf<typeof FLAGS, NodeDefaults & { readonly chain: undefined }>
type Ended = ReplayEnd & { readonly isCut: boolean }

const FAILS = [JournalError, LazyStartError, RecordError]

/** Ends with 1 where something was shown otherwise than in the record, or the flashblock to stop at did not come. */
export function runReplay(config: ReplayConfig, path: string): Promise<void> {
  return runProcess(config, FAILS, async (process) => {
    // Whoever names no file, or another one, is told before anything is opened.
    statSync(path)
    const { head } = openRecord(path)
    await start(config, process, { path, head })
  })
}

async function start(
  config: ReplayConfig,
  running: Process,
  { path, head }: { readonly path: string; readonly head: Head },
): Promise<void> {
  const { log, end } = running
  const over = Promise.withResolvers<void>()
  const parts = startParts({ log, isTerminal: process.stderr.isTTY })
  const { speed, until, stay, json } = config
  const tape = {
    type: 'replay',
    data: { path, speed: speed === 'full' ? undefined : speed, until },
    onStatus({ events }: ReplayEnd | { readonly events: number }) {
      parts.update({ part: 'events', done: events, total: undefined })
    },
    async onEnd(ended: Ended) {
      parts.stop()
      await say(json ? jsonOf(ended) : textOf(ended))
      if (!stay) return end(statusOf(ended, until))
      over.resolve()
    },
  } as const
  const { heldFlashblocks } = head
  const role = replayRole({ head, tape, over: over.promise, isQuiet: !stay || json })
  await startNode({ config: { ...config, heldFlashblocks, verifySample: 0 }, ...running }, role)
}

const statusOf = ({ differs, isStopped, shown }: Ended, until: Place | undefined): number =>
  differs === undefined && !isStopped && (until === undefined || isAt(shown, until)) ? 0 : 1

const isAt = (shown: Ended['shown'], { number, index }: Place): boolean =>
  shown !== undefined &&
  (shown.pending > number || (shown.pending === number && shown.index >= index))

function jsonOf({ shown, differs, ...counts }: Ended): string {
  const hashes = shown && {
    ...shown,
    hash: bytesToHex(shown.hash),
    canonicalHash: bytesToHex(shown.canonicalHash),
  }
  return `${JSON.stringify({ ...counts, shown: hashes ?? null, differs: differs ?? null })}\n`
}

function textOf(ended: Ended): string {
  const { events, frames, blocks, values, held, shown, differs, isCut } = ended
  const rows: (readonly [string, string | number])[] = [
    ['events', events],
    ['frames', frames],
    ['canonical blocks', blocks],
    ['reads of others', values],
    ['shown, and held to the record', held],
  ]
  const lines = [table(rows)]
  if (shown !== undefined)
    lines.push(
      `canonical ${shown.canonical} ${bytesToHex(shown.canonicalHash)}\n`,
      `pending ${shown.pending}:${shown.index} ${bytesToHex(shown.hash)}\n`,
    )
  if (isCut) lines.push('the file was cut: this is up to its last whole section\n')
  lines.push(differs === undefined ? 'the same as it was recorded\n' : `${differs}\n`)
  return lines.join('')
}
