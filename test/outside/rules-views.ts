/** Rules of tables, records, leases, pages and reads. */
import type { Edit } from '../kit/edits.ts'
import { pause, pauseUntil } from '../kit/pause.ts'
import type { Rule } from './rule.ts'

const edit = (file: string, find: string, replace: string): Edit => ({
  file: `engine/${file}.ts`,
  find,
  replace,
})
/** Waits before the text. */
const before = (file: string, find: string, wait: string) => edit(file, find, `${wait}\n${find}`)

/** A reader is late: between the head word and its row, until a recycler has read the rows. */
const lateRow = before(
  'views/lease',
  '        if (enter(number)) return',
  pauseUntil(0.3, 'Atomics.load(words, HEAD + 1) === 1', 60),
)
/** So late that a recycler has passed it. */
const passedRow = before(
  'views/lease',
  '        if (enter(number)) return',
  pauseUntil(0.3, 'Atomics.load(words, FLOOR) > number', 60),
)
/** The front looks at the floor late. */
const lateLook = before(
  'views/lease',
  '    if (Atomics.load(words, FLOOR) <= number) return true\n',
  `if (thread === front) ${pause(0.7, 30)}`,
)
/** A worker takes a record over when a recycler has passed it. */
const lateAdopt = (milliseconds: number) =>
  edit(
    'views/lease',
    '    adopt: (number) => (number > 0 && enter(number) ? hold(number) : undefined),',
    `    adopt: (number) => {
      ${pauseUntil(0.7, 'Atomics.load(words, FLOOR) > number', milliseconds)}
      return number > 0 && enter(number) ? hold(number) : undefined
    },`,
  )
/** The recycler is slow: between the rows and the floor, until a late reader has set its row. */
const lateFloor = before(
  'views/pages',
  '    if (floor > Atomics.load(words, FLOOR)) Atomics.store',
  `Atomics.store(words, HEAD + 1, 1)
    ${pauseUntil(1, 'oldestLease() < floor', 40)}
    Atomics.store(words, HEAD + 1, 0)`,
)
/** And between the rows of the pool and that of the front, while this one is below the floor. */
const lateFrontRow = before(
  'views/pages',
  '      const row = Math.abs(Atomics.load(words, rowAt(thread)))\n',
  `const front = Math.abs(Atomics.load(words, rowAt(0)))
      if (thread === 2 && front !== 0 && front < Atomics.load(words, FLOOR))
        ${pauseUntil(1, 'Math.abs(Atomics.load(words, rowAt(0))) !== front', 80)}`,
)
/** The keeper is slow to take a block. */
const lateAppend = before(
  'storage/keeper/state',
  '        if (this.#unfold === undefined) return this.#commit(request)\n',
  pause(0.5, 60),
)

export const VIEW_RULES: readonly Rule[] = [
  {
    name: 'slotLast',
    rule: 'an entry is complete before its index word',
    edits: [
      edit(
        'views/table',
        '  words[entry] = hash\n  words[entry + 1] =',
        '  Atomics.store(words, slot, entry)\n  words[entry] = hash\n  words[entry + 1] =',
      ),
    ],
    race: [
      before(
        'views/table',
        '  words[entry + 1] = draft.tag\n',
        `if (older !== 0) ${pause(0.3, 8)}`,
      ),
    ],
    expect: ['torture', 'model'],
  },
  {
    name: 'headLast',
    rule: 'the head word is stored last',
    edits: [
      before(
        'views/record',
        '  arena.bytes.set(base.hash, (at + HASH) * 4)\n',
        '  Atomics.store(words, HEAD, number)',
      ),
    ],
    race: [
      before(
        'views/record',
        '  for (const [index, head] of [record.canonical, record.complete,',
        pause(0.5, 4),
      ),
    ],
    expect: ['torture', 'model'],
  },
  {
    name: 'tags',
    rule: 'higher indices are skipped in the own block of a view',
    edits: [
      edit(
        'views/table',
        '    while (entry !== 0 && words[entry + 1]! > limit) entry = words[entry + 2]!\n    return',
        '    return',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'newTable',
    rule: 'a new payload gets a table of its own',
    edits: [
      before(
        'views/publisher',
        '    const build: Build = {\n',
        `    for (const open of this.builds.values())
      if (open.parent?.id === parent.id && open.tag !== FINAL && open.tag >= 0) {
        Object.assign(open, { tag: -1, transactions: 0, logs: 0 })
        return open
      }`,
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'stopAtBase',
    rule: "the walk ends at the record's base",
    edits: [
      edit(
        'views/walk',
        '  while (height > base) {\n    const entry',
        '  while (table !== 0) {\n    const entry',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'linkParent',
    rule: 'a table always links its parent',
    edits: [edit('views/build', '? { parent: tableOf(parent),', '? { parent: 0,')],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'recheck',
    rule: 'a reader looks at the floor after its row is set',
    edits: [
      edit(
        'views/lease',
        'if (Atomics.load(words, FLOOR) <= number) return true',
        'if (number > 0) return true',
      ),
    ],
    race: [passedRow],
    expect: ['torture', 'model'],
  },
  {
    name: 'rescan',
    rule: 'rows are read again after the floor is raised',
    edits: [
      edit('views/pages', 'unreadBelow = Math.min(floor, oldestLease())', 'unreadBelow = floor'),
    ],
    race: [lateRow, lateFloor],
    expect: ['torture', 'model'],
  },
  {
    name: 'covered',
    rule: "a worker may adopt below the floor while its front's row covers it",
    edits: [edit('views/lease', '    if (thread !== front) {', '    if (thread < front) {')],
    race: [lateRow, lateAdopt(10), lateFloor],
    expect: ['torture', 'model'],
  },
  {
    name: 'ownFront',
    rule: "it is the row of the worker's own front that covers it, where there are several",
    edits: [edit('views/lease', 'words, rowAt(front)', 'words, rowAt(FRONT)')],
    expect: ['model'],
  },
  {
    name: 'frontFirst',
    rule: 'the recycler reads the row of a front before those of its workers',
    edits: [
      edit(
        'views/pages',
        'for (let thread = 0; thread < arena.threads; thread++) {',
        'for (let thread = arena.threads - 1; thread >= 0; thread--) {',
      ),
    ],
    race: [lateRow, lateAdopt(10), lateFloor, lateFrontRow],
    expect: ['torture', 'model'],
  },
  {
    name: 'coverChecked',
    rule: 'only a row that has passed the floor covers another thread',
    edits: [
      edit(
        'views/lease',
        'Atomics.store(words, row, -number)',
        'Atomics.store(words, row, number)',
      ),
    ],
    race: [passedRow, lateLook, lateAdopt(80)],
    expect: ['torture', 'model'],
  },
  {
    name: 'ringBound',
    rule: 'a record is overwritten below what the second look at the rows saw, not below the floor',
    edits: [
      edit(
        'views/record',
        '  if (number > RECORDS && number - RECORDS >= unreadBelow)',
        '  if (number < 0)',
      ),
    ],
    expect: ['model'],
  },
  {
    name: 'oldestRow',
    rule: 'the row of a thread is the oldest record that it still leases',
    edits: [
      edit(
        'views/lease',
        'Atomics.store(words, row, leastOf(counts.keys()))',
        'Atomics.store(words, row, 0)',
      ),
    ],
    expect: ['torture', 'histories'],
  },
  {
    name: 'handed',
    rule: 'a table handed over is not retired before the answer',
    edits: [
      edit(
        'views/publisher',
        'state.find(block).isHanded = true',
        'state.find(block).isAwaited = false',
      ),
    ],
    race: [lateAppend],
    expect: ['torture', 'model'],
  },
  {
    name: 'headIsBase',
    rule: 'a head that is also the base keeps its table',
    edits: [
      edit(
        'views/publisher',
        '(build.id !== this.base.id || isHead)) continue',
        'build.id !== this.base.id) continue',
      ),
    ],
    expect: ['torture', 'histories'],
  },
  {
    name: 'prefixOfBase',
    rule: 'the state of a prefix of the base is refused',
    edits: [
      edit(
        'views/reader',
        '  if (at.tag !== FINAL && at.height <= base.height)\n',
        '  if (at.height < 0)\n',
      ),
    ],
    expect: ['torture', 'histories'],
  },
  {
    name: 'foldCheck',
    rule: 'the fold word is looked at after a flat read',
    edits: [
      edit(
        'views/reader',
        'if (fold.isOvertaken()) return hand(valueAfter(kind, base.height), out, outAt)',
        'fold.isOvertaken()',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'checkAfter',
    rule: 'it is looked at after the read, not before',
    edits: [
      edit(
        'views/reader',
        '    const value = flat(kind)\n    if (fold.isOvertaken()) return hand(',
        '    const isOvertaken = fold.isOvertaken()\n    const value = flat(kind)\n    if (isOvertaken) return hand(',
      ),
    ],
    race: [before('views/reader', '    const value = flat(kind)\n', pause(0.1, 4))],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'foldById',
    rule: 'the fold word is a block id, not a height',
    edits: [
      edit('views/publisher', 'FOLD, this.base.id)', 'FOLD, this.base.number)'),
      edit(
        'storage/keeper/state',
        'this.#words.setFold(block.id)',
        'this.#words.setFold(block.appended!.number)',
      ),
      edit('storage/keeper/state', 'this.#words.setFold(toId)', 'this.#words.setFold(to.number)'),
      edit(
        'views/reader',
        'isHeld: (block) => heights().has(block)',
        'isHeld: (block) => [...heights().values()].includes(block)',
      ),
      edit(
        'views/reader',
        'const found = heights().get(now)',
        'const found = [...heights().values()].find((each) => each === now)',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'wholeBlocks',
    rule: 'the own block of a view counts only when it is held to the end',
    edits: [edit('views/walk', '  if (from.tag === FINAL) yield [from.id,', '  yield [from.id,')],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'historyAtBase',
    rule: "an overtaken reader reads history as of its base, not of the view's height",
    edits: [
      edit(
        'views/reader',
        'if (fold.isOvertaken()) return hand(valueAfter(kind, base.height),',
        'if (fold.isOvertaken()) return hand(valueAfter(kind, at.height),',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'flatThenHistory',
    rule: 'history reads take the flat value first, the history entry second',
    edits: [
      edit('views/reader', '    const latest = flat(kind)\n', ''),
      edit(
        'views/reader',
        '    const before = historyOf(kind, number)\n',
        `    const before = historyOf(kind, number)\n${pause(0.1, 4)}\n    const latest = flat(kind)\n`,
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'unfoldCheck',
    rule: 'the unfold count is looked at after each database read',
    edits: [
      edit(
        'views/reader',
        'if (Atomics.load(arena.words, UNFOLDS) !== record.unfolds)',
        'if (record.unfolds < 0)',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'unfoldLast',
    rule: 'the unfold count is looked at after the fold word',
    edits: [
      edit(
        'views/reader',
        '      const now = Atomics.load(arena.words, FOLD)\n',
        '      assertValid(arena, record)\n      const now = Atomics.load(arena.words, FOLD)\n',
      ),
      edit(
        'views/reader',
        '      assertValid(arena, record)\n      if (now === id) return false',
        '      if (now === id) return false',
      ),
    ],
    race: [
      before(
        'views/reader',
        '      const now = Atomics.load(arena.words, FOLD)\n',
        pauseUntil(
          0.3,
          'Atomics.load(arena.words, UNFOLDS) !== record.unfolds && Atomics.load(arena.words, FOLD) === record.base.id',
          60,
        ),
      ),
    ],
    expect: ['torture', 'model'],
  },
  {
    name: 'unfoldFromAck',
    rule: "records carry the unfold count of the keeper's answer",
    edits: [
      edit(
        'views/publisher',
        'unfolds: this.#unfolds,',
        'unfolds: Atomics.load(arena.words, UNFOLDS),',
      ),
    ],
    race: [before('storage/blocks/unfold', '  return parent\n', pause(1, 20))],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'rowsAbove',
    rule: 'index rows above the base are ignored',
    edits: [
      edit(
        'chain/reader',
        'place is TransactionPlace => place !== undefined && place.blockNumber <= base.height',
        'place is TransactionPlace => place !== undefined',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'numberFromChain',
    rule: 'number to hash above the base comes from the chain of tables',
    edits: [
      edit(
        'chain/view-blocks',
        '    if (found !== undefined) return this.at(found)\n',
        '    if (found !== undefined && height === this.top.height) return this.at(found)\n',
      ),
      edit('views/reader', '  if (height > base.height) {', '  if (height > at.height) {'),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'cacheStamp',
    rule: 'a cached value is used only when no later fold changed its key',
    edits: [
      edit(
        'views/reader',
        '      Atomics.load(arena.words, stampAt(arena, query.hash)) <= height &&\n',
        '',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'cacheInChain',
    rule: 'a cached value is used only by a view that holds the block it was read at',
    edits: [
      edit('views/reader', '(height <= base.height || fold.isHeld(cache.block()))', 'height >= 0'),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'cacheUnfolds',
    rule: 'a cached value is used only by views of the same unfolds',
    edits: [edit('views/reader', '      cache.unfolds() === record.unfolds &&\n', '')],
    expect: ['torture', 'histories'],
  },
  {
    name: 'cacheVoid',
    rule: 'the unfold count is looked at also when the cache answers',
    edits: [edit('views/reader', '    if (isSame) assertValid(arena, record)\n', '')],
    race: [
      // Until the other branch has set the stamp back.
      before(
        'views/reader',
        '    const isSame =\n',
        `const isStale = () => Atomics.load(arena.words, stampAt(arena, query.hash)) > height
    if (isStale() && cache.unfolds() === record.unfolds)
      ${pauseUntil(0.5, '!isStale()', 60)}`,
      ),
    ],
    expect: ['torture', 'histories'],
  },
  {
    name: 'pruneCheck',
    rule: 'the horizon is looked at after a history read',
    edits: [
      edit('views/reader', 'if (number < Atomics.load(arena.words, OLDEST))', 'if (number < 0)'),
    ],
    expect: ['torture', 'histories', 'model'],
  },
]
