/** Records that were cut, spoilt, or are none; where a replay stops, and how fast it is. */
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
  const whole = await replayed(file)
  check(
    'a whole file: ends with 0 and is not cut',
    whole.status === 0 && !whole.result.isCut,
    `status ${whole.status}, cut ${whole.result.isCut}, ${JSON.stringify(whole.result.requests.differences[0] ?? whole.result.differs)}`,
  )
  const cutAt = Math.floor(bytes.length * (0.5 + random() / 3))
  const cutFile = made('cut', bytes.subarray(0, cutAt))
  const cut = await replayed(cutFile)
  check(
    'a file that was cut is replayed up to its last whole section, and says so',
    cut.status === 0 && cut.result.isCut && within(cut.result.held, whole.result.held),
    `${cut.result.held} of ${whole.result.held} held`,
  )
  const spoiltBytes = Buffer.from(bytes)
  spoiltBytes[cutAt] = spoiltBytes[cutAt]! ^ 0x10
  const spoilt = await replayed(made('spoilt', spoiltBytes))
  check(
    'of a file with one bit that is another all is replayed that is before it',
    spoilt.status === 0 && spoilt.result.isCut && within(spoilt.result.held, whole.result.held),
    `${spoilt.result.held} of ${whole.result.held} held`,
  )
  for (const [name, content] of [
    ['none', Buffer.from('{"type":"head"}\n'.repeat(8))],
    ['empty', Buffer.alloc(0)],
    ['newer', Buffer.from(bytes).fill(9, 8, 9)],
  ] as const) {
    const { status, error } = await run(['replay', made(name, content)])
    check(
      `a file that is ${name}: ends with 1 and one line that says what`,
      status === 1 && /is no record|has version 9/.test(error),
      error,
    )
  }
  const missing = await run(['replay', join(folder, 'nowhere')])
  check(
    'a file that is not there: ends with 1 and says which',
    missing.status === 1 && /nowhere cannot be read: ENOENT/.test(missing.error),
    missing.error,
  )
  const { pending } = whole.result.shown
  // On a busy machine the node that was recorded may have taken that flashblock and the next at once.
  const at = firstShown(file, { number: pending - 5, index: 1 })
  const stop = await replayed(file, ['--until', `${pending - 5}:1`])
  check(
    '--until stops at that flashblock, or the first that is shown after it',
    stop.status === 0 && isSamePlace(stop.result.shown, at),
    `${JSON.stringify(stop.result.shown)}, in the record ${JSON.stringify(at)}`,
  )
  const beyond = await replayed(file, ['--until', `${pending + 5}`])
  check('--until a flashblock that is not in it: ends with 1', beyond.status === 1)
  const exists = await run(['record', '--upstream', 'http://127.0.0.1:9', '--out', file])
  check(
    'record: a file that is there is left alone',
    exists.status === 1 && /is there already/.test(exists.error),
    exists.error,
  )
}

type ShownPlace = Ended['shown']

/** As the record says. */
function firstShown(
  file: string,
  { number, index }: { readonly number: number; readonly index: number },
): ShownPlace | undefined {
  for (const line of openRecord(file).lines) {
    const shows = 'shows' in line ? line.shows : undefined
    if (shows === undefined) continue
    if (shows.pending > number || (shows.pending === number && shows.index >= index))
      return { canonical: shows.canonical, pending: shows.pending, index: shows.index }
  }
  return undefined
}
const isSamePlace = (a: ShownPlace, b: ShownPlace | undefined): boolean =>
  a.canonical === b?.canonical && a.pending === b.pending && a.index === b.index

const within = (part: number, all: number): boolean => part > 0 && part < all
