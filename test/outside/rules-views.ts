/** These are the rules of diff layers, snapshots, leases, pages and reads. */
import type { Edit } from '../kit/edits.ts'
import { pause, pauseUntil } from '../kit/pause.ts'
import type { Rule } from './rule.ts'

const edit = (file: string, find: string, replace: string): Edit => ({
  file: `engine/${file}.ts`,
  find,
  replace,
})
/** Inserts a wait before the text. */
const before = (file: string, find: string, wait: string) => edit(file, find, `${wait}\n${find}`)

/** Delays a reader between the head word and its row, until a recycler has read the rows. */
const lateRow = before(
  'views/lease',
  '        if (enter(number)) return',
  pauseUntil(0.3, 'Atomics.load(words, HEAD + 1) === 1', 60),
)
/** Delays a reader so long that a recycler has passed its row. */
const passedRow = before(
  'views/lease',
  '        if (enter(number)) return',
  pauseUntil(0.3, 'Atomics.load(words, FLOOR) > number', 60),
)
/** Delays the front's read of the floor. */
const lateCheck = before(
  'views/lease',
  '    if (Atomics.load(words, FLOOR) <= number) return true\n',
  `if (thread === front) ${pause(0.7, 30)}`,
)
/** Lets a worker adopt a snapshot after a recycler has passed the snapshot. */
const lateAdopt = (milliseconds: number) =>
  edit(
    'views/lease',
    '    adopt: (number) => (number > 0 && enter(number) ? pin(number) : undefined),',
    `    adopt: (number) => {
      ${pauseUntil(0.7, 'Atomics.load(words, FLOOR) > number', milliseconds)}
      return number > 0 && enter(number) ? pin(number) : undefined
    },`,
  )
/** Delays the recycler between the rows and the floor, until a late reader has set its row. */
const lateFloor = before(
  'views/pages',
  '    if (floor > Atomics.load(words, FLOOR)) Atomics.store',
  `Atomics.store(words, HEAD + 1, 1)
    ${pauseUntil(1, 'oldestLease() < floor', 40)}
    Atomics.store(words, HEAD + 1, 0)`,
)
/**
 * Delays the recycler between the rows of the pool and the row of the front. The delay lasts while
 * the row of the front is below the floor.
 */
const lateFrontRow = before(
  'views/pages',
  '      const row = Math.abs(Atomics.load(words, rowAt(thread)))\n',
  `const front = Math.abs(Atomics.load(words, rowAt(0)))
      if (thread === 2 && front !== 0 && front < Atomics.load(words, FLOOR))
        ${pauseUntil(1, 'Math.abs(Atomics.load(words, rowAt(0))) !== front', 80)}`,
)
/** Delays the persistence thread before it takes a block. */
const lateAppend = before(
  'storage/persistence/persistence-state',
  '        if (this.#unwind === undefined) return this.#commit(request)\n',
  pause(0.5, 60),
)

export const VIEW_RULES: readonly Rule[] = [
  {
    name: 'slotLast',
    rule: 'an entry is complete before its index word',
    edits: [
      edit(
        'views/diff-layer',
        '  words[entry] = hash\n  words[entry + 1] =',
        '  Atomics.store(words, slot, entry)\n  words[entry] = hash\n  words[entry + 1] =',
      ),
    ],
    race: [
      before(
        'views/diff-layer',
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
        'views/chain-snapshot',
        '  arena.bytes.set(base.hash, (at + HASH) * 4)\n',
        '  Atomics.store(words, HEAD, number)',
      ),
    ],
    race: [
      before(
        'views/chain-snapshot',
        '  for (const [index, head] of [snapshot.canonical, snapshot.complete,',
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
        'views/diff-layer',
        '    while (entry !== 0 && words[entry + 1]! > limit) entry = words[entry + 2]!\n    return',
        '    return',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'newDiffLayer',
    rule: 'a new payload gets a diff layer of its own',
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
    rule: "the walk ends at the snapshot's base",
    edits: [
      edit(
        'views/walk',
        '  while (height > base) {\n    const entry',
        '  while (diffLayer !== 0) {\n    const entry',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'linkParent',
    rule: 'a diff layer always links its parent',
    edits: [edit('views/build', '? { parent: diffLayerOf(parent),', '? { parent: 0,')],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'recheck',
    rule: 'a reader checks the floor after its row is set',
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
    rule: "with several fronts, the row of the worker's own front covers it",
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
    race: [passedRow, lateCheck, lateAdopt(80)],
    expect: ['torture', 'model'],
  },
  {
    name: 'ringBound',
    rule: 'a snapshot is overwritten below what the second read of the rows found, not below the floor',
    edits: [
      edit(
        'views/chain-snapshot',
        '  if (number > SNAPSHOTS && number - SNAPSHOTS >= unreadBelow)',
        '  if (number < 0)',
      ),
    ],
    expect: ['model'],
  },
  {
    name: 'oldestRow',
    rule: 'the row of a thread is the oldest snapshot that it still leases',
    edits: [
      edit(
        'views/lease',
        'Atomics.store(words, row, minOf(counts.keys()))',
        'Atomics.store(words, row, 0)',
      ),
    ],
    expect: ['torture', 'histories'],
  },
  {
    name: 'submitted',
    rule: 'a submitted diff layer is not retired before the response',
    edits: [
      edit(
        'views/publisher',
        'state.find(block).isSubmitted = true',
        'state.find(block).isAwaited = false',
      ),
    ],
    race: [lateAppend],
    expect: ['torture', 'model'],
  },
  {
    name: 'headIsBase',
    rule: 'a head that is also the base keeps its diff layer',
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
    name: 'persistCheck',
    rule: 'the persisted-id word is checked after a flat read',
    edits: [
      edit(
        'views/reader',
        'if (flatCheck.isOvertaken()) return putValue(valueAfter(kind, base.height), out, outAt)',
        'flatCheck.isOvertaken()',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'checkAfter',
    rule: 'the check comes after the read, not before',
    edits: [
      edit(
        'views/reader',
        '    const value = flat(kind)\n    if (flatCheck.isOvertaken()) return putValue(',
        '    const isOvertaken = flatCheck.isOvertaken()\n    const value = flat(kind)\n    if (isOvertaken) return putValue(',
      ),
    ],
    race: [before('views/reader', '    const value = flat(kind)\n', pause(0.1, 4))],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'persistById',
    rule: 'the persisted-id word is a block id, not a height',
    edits: [
      edit('views/publisher', 'PERSISTED_ID, this.base.id)', 'PERSISTED_ID, this.base.number)'),
      edit(
        'storage/persistence/persistence-state',
        'this.#words.setPersistedId(block.id)',
        'this.#words.setPersistedId(block.appended!.number)',
      ),
      edit(
        'storage/persistence/persistence-state',
        'this.#words.setPersistedId(toId)',
        'this.#words.setPersistedId(to.number)',
      ),
      edit(
        'views/reader',
        'isComplete: (block) => heights().has(block)',
        'isComplete: (block) => [...heights().values()].includes(block)',
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
    name: 'completeBlocks',
    rule: 'the own block of a view counts only when the view has all of it',
    edits: [edit('views/walk', '  if (from.tag === FINAL) yield [from.id,', '  yield [from.id,')],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'historyAtBase',
    rule: "an overtaken reader reads history as of its base, not of the view's height",
    edits: [
      edit(
        'views/reader',
        'if (flatCheck.isOvertaken()) return putValue(valueAfter(kind, base.height),',
        'if (flatCheck.isOvertaken()) return putValue(valueAfter(kind, at.height),',
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
    name: 'unwindCheck',
    rule: 'the unwind count is checked after each database read',
    edits: [
      edit(
        'views/reader',
        'if (Atomics.load(arena.words, UNWINDS) !== snapshot.unwinds)',
        'if (snapshot.unwinds < 0)',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'unwindLast',
    rule: 'the unwind count is checked after the persisted-id word',
    edits: [
      edit(
        'views/reader',
        '      const now = Atomics.load(arena.words, PERSISTED_ID)\n',
        '      assertValid(arena, snapshot)\n      const now = Atomics.load(arena.words, PERSISTED_ID)\n',
      ),
      edit(
        'views/reader',
        '      assertValid(arena, snapshot)\n      if (now === id) return false',
        '      if (now === id) return false',
      ),
    ],
    race: [
      before(
        'views/reader',
        '      const now = Atomics.load(arena.words, PERSISTED_ID)\n',
        pauseUntil(
          0.3,
          'Atomics.load(arena.words, UNWINDS) !== snapshot.unwinds && Atomics.load(arena.words, PERSISTED_ID) === snapshot.base.id',
          60,
        ),
      ),
    ],
    expect: ['torture', 'model'],
  },
  {
    name: 'unwindFromAck',
    rule: "snapshots carry the unwind count of the persistence thread's response",
    edits: [
      edit(
        'views/publisher',
        'unwinds: this.#unwinds,',
        'unwinds: Atomics.load(arena.words, UNWINDS),',
      ),
    ],
    race: [before('storage/blocks/unwind', '  return parent\n', pause(1, 20))],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'rowsAbove',
    rule: 'index rows above the base are ignored',
    edits: [
      edit(
        'chain/reader',
        'location is TransactionLocation => location !== undefined && location.blockNumber <= base.height',
        'location is TransactionLocation => location !== undefined',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'numberFromChain',
    rule: 'the hash of a number above the base comes from the chain of diff layers',
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
    rule: 'a cached value is used only when no later persist pass changed its key',
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
    rule: 'a cached value is used only by a view whose chain has the block of the read',
    edits: [
      edit(
        'views/reader',
        '(height <= base.height || flatCheck.isComplete(cache.block()))',
        'height >= 0',
      ),
    ],
    expect: ['torture', 'histories', 'model'],
  },
  {
    name: 'cacheUnwinds',
    rule: 'a cached value is used only by views of the same unwinds',
    edits: [edit('views/reader', '      cache.unwinds() === snapshot.unwinds &&\n', '')],
    expect: ['torture', 'histories'],
  },
  {
    name: 'cacheVoid',
    rule: 'the unwind count is checked also when the cache answers',
    edits: [edit('views/reader', '    if (isSame) assertValid(arena, snapshot)\n', '')],
    race: [
      // The wait lasts until the other branch has reset the stamp.
      before(
        'views/reader',
        '    const isSame =\n',
        `const isStale = () => Atomics.load(arena.words, stampAt(arena, query.hash)) > height
    if (isStale() && cache.unwinds() === snapshot.unwinds)
      ${pauseUntil(0.5, '!isStale()', 60)}`,
      ),
    ],
    expect: ['torture', 'histories'],
  },
  {
    name: 'pruneCheck',
    rule: 'the horizon is checked after a history read',
    edits: [
      edit('views/reader', 'if (number < Atomics.load(arena.words, OLDEST))', 'if (number < 0)'),
    ],
    expect: ['torture', 'histories', 'model'],
  },
]
