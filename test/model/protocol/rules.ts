/**
 * The rules that the model can switch off, with the purpose of each. The names are those of
 * test/outside/rules.ts.
 */

/** Each text says what a reader or a restart meets when the rule is off. */
const RULE_TABLE = {
  slotLast: 'a torn entry is read',
  headLast: 'a view at (1, 0) is visible while one of its keys is still old',
  tags: 'a view at (1, 0) answers with (1, 1)',
  newDiffLayer: 'tags repeat: a view of the first payload reads the second',
  stopAtBase: 'recycled pages are read',
  linkParent: 'the chain has a hole',
  recheck: 'pages are recycled under a lease',
  rescan: 'pages are recycled under a lease',
  covered: 'a worker is refused the view that its front leases',
  ownFront: 'a worker of another front is refused the view that its front leases',
  frontFirst: 'a view that moves between two reads of the rows is recycled',
  coverChecked: 'a row that the front is about to take back covers a snapshot whose pages are gone',
  oldestRow: 'pages are recycled under the older of two leases',
  ringBound: 'a leased snapshot is overwritten',
  clearDead: 'the writer waits for memory for ever',
  clearAfterExit: 'recycled pages are read',
  submitted: 'the diff layer of a canonical block is recycled',
  headIsBase: 'the header of a head is read from recycled pages',
  prefixOfBase: 'state at (1, 0) is answered with the full block 1',
  appendFirst: 'kill -9: a block that was visible as canonical is gone',
  persistWordFirst: 'a view at 1 reads a value of 2',
  persistCheck: 'a view at 1 reads a value of 2',
  checkAfter: 'a view at 1 reads a value of 2',
  persistById: 'a view on a dropped block 2 reads the flat state of the other block 2',
  completeBlocks: 'a view at (1, 0) reads (1, 1) once block 1 is persisted',
  historyAtBase:
    'a view on a dropped block 2 finds no entry and reads a value of the other block 2',
  flatThenHistory: 'a persist pass between both reads: the reader sees the new value and no entry',
  pair: 'overtaken readers see the new value without its entry',
  prevStored: 'a persist pass that restarts after kill -9 stores the new value as the previous one',
  persistRepeated: 'kill -9: flat state stays half of one block and half of the next',
  persistUndone: 'rows of a dropped block stay in flat state',
  baseFromResponse: 'a block counts as persisted while it is being persisted',
  unwindCheck: 'a view mixes two branches',
  unwindFirst: 'a view mixes two branches',
  unwindLast:
    'the persisted-id word has come back to the base, and the value of a dropped block passes',
  unwindFromAck: 'a view mixes two branches',
  appendBeforeUnwind: 'kill -9: the head is lower than the head that was visible',
  openUnwinds: 'kill -9: flat state stays that of the abandoned branch',
  rowsAbove: 'a transaction of a later block is found',
  indexAtPersist: 'a transaction of a dropped block is found',
  numberFromChain: 'the number of a block gives no hash, or that of another branch',
  wipe: 'old slots come back',
  pruneFirst: 'a pruned entry gives the latest value',
  pruneCheck: 'a pruned entry gives the latest value',
  horizonDurable: 'kill -9: the horizon is older than the history',
  stampFirst: 'a cached value from before a persist pass is used',
  cacheStamp: 'a cached value from before a persist pass is used',
  cacheInChain: 'a view uses a value of a later block',
  cacheVoid:
    'another branch sets a stamp back, and a value of an older block of that branch passes',
  cacheUnwinds: 'a view uses a value of the abandoned branch',
  canonicalCapacity: 'the canonical block waits for memory for ever',
  submittedHeight: 'a second payload drops a block that the persistence thread has taken',
} as const

export type RuleName = keyof typeof RULE_TABLE
export const RULE_NAMES = Object.keys(RULE_TABLE) as readonly RuleName[]
export const without = (name: RuleName): string => RULE_TABLE[name]

export type Rules = Readonly<Record<RuleName, boolean>>
export const ALL_ON = Object.fromEntries(RULE_NAMES.map((name) => [name, true])) as Rules
export const allBut = (name: RuleName): Rules => ({ ...ALL_ON, [name]: false })
