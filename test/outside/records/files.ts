/**
 * These checks cover recordings that were cut, spoilt or are invalid, the place where a replay
 * stops, and its speed.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openRecord } from '../../../workers/record/reading.ts'
import type { Check } from '../../kit/checks.ts'
import { temporary } from '../follow/nodes.ts'
import { run } from '../operate/command.ts'
import { type Ended, replayed } from './replays.ts'
import type { Recorded } from './world.ts'

export async function checkFiles(
  { file }: Recorded,
  { check, random }: { readonly check: Check; readonly random: () => number },
): Promise<void> {
  const bytes = readFileSync(file)
  const folder = temporary('files')
  const made = (name: string, content: Uint8Array) => {
    const path = join(folder, name)
    writeFileSync(path, content)
    return path
  }
  const full = await replayed(file)
  check(
    'replay of a complete file ends with 0 and reports no cut',
    full.status === 0 && !full.result.isCut,
    `status ${full.status}, cut ${full.result.isCut}, ${JSON.stringify(full.result.requests.differences[0] ?? full.result.differs)}`,
  )
  const cutAt = Math.floor(bytes.length * (0.5 + random() / 3))
  const cutFile = made('cut', bytes.subarray(0, cutAt))
  const cut = await replayed(cutFile)
  check(
    'replay of a cut file plays it up to its last complete section, and reports the cut',
    cut.status === 0 && cut.result.isCut && within(cut.result.held, full.result.held),
    `${cut.result.held} of ${full.result.held} held`,
  )
  const spoiltBytes = Buffer.from(bytes)
  spoiltBytes[cutAt] = spoiltBytes[cutAt]! ^ 0x10
  const spoilt = await replayed(made('spoilt', spoiltBytes))
  check(
    'replay of a file with a flipped bit plays the part before the bit',
    spoilt.status === 0 && spoilt.result.isCut && within(spoilt.result.held, full.result.held),
    `${spoilt.result.held} of ${full.result.held} held`,
  )
  for (const [name, content] of [
    ['none', Buffer.from('{"type":"head"}\n'.repeat(8))],
    ['empty', Buffer.alloc(0)],
    ['newer', Buffer.from(bytes).fill(9, 8, 9)],
  ] as const) {
    const { status, error } = await run(['replay', made(name, content)])
    check(
      `replay of an invalid file (${name}) ends with 1 and one line with the reason`,
      status === 1 && /is not a recording|has format version 9/.test(error),
      error,
    )
  }
  const missing = await run(['replay', join(folder, 'nowhere')])
  check(
    'replay of a missing file ends with 1 and names the file',
    missing.status === 1 && /nowhere cannot be read: ENOENT/.test(missing.error),
    missing.error,
  )
  const { pending } = full.result.shown
  // On a busy machine the recorded node may have taken that flashblock and the next at once.
  const at = firstVisible(file, { number: pending - 5, index: 1 })
  const stop = await replayed(file, ['--until', `${pending - 5}:1`])
  check(
    '--until stops at that flashblock, or at the first visible one after it',
    stop.status === 0 && isSamePosition(stop.result.shown, at),
    `${JSON.stringify(stop.result.shown)}, in the record ${JSON.stringify(at)}`,
  )
  const beyond = await replayed(file, ['--until', `${pending + 5}`])
  check('--until with a flashblock after the recording ends with 1', beyond.status === 1)
  const exists = await run(['record', '--upstream', 'http://127.0.0.1:9', '--out', file])
  check(
    'record does not overwrite a file',
    exists.status === 1 && /exists already/.test(exists.error),
    exists.error,
  )
}

type VisiblePosition = Ended['shown']

/** Finds the first visible position in the recording. */
function firstVisible(
  file: string,
  { number, index }: { readonly number: number; readonly index: number },
): VisiblePosition | undefined {
  for (const line of openRecord(file).lines) {
    const shows = 'shows' in line ? line.shows : undefined
    if (shows === undefined) continue
    if (shows.pending > number || (shows.pending === number && shows.index >= index))
      return { canonical: shows.canonical, pending: shows.pending, index: shows.index }
  }
  return undefined
}
const isSamePosition = (a: VisiblePosition, b: VisiblePosition | undefined): boolean =>
  a.canonical === b?.canonical && a.pending === b.pending && a.index === b.index

const within = (part: number, all: number): boolean => part > 0 && part < all
