/** The rules that the model can switch off, by the names that test/outside/rules.ts has for them, and what each is there for. */

/** `without`: what a reader, or a restart, meets when the rule is off. */
const RULE_TABLE = {
  slotLast: 'a torn entry is read',
  headLast: 'a view at (1, 0) is shown while a key of it is still old',
  tags: 'a view at (1, 0) answers with (1, 1)',
  newTable: 'tags repeat: a view of the first payload reads the second',
  stopAtBase: 'recycled pages are read',
  linkParent: 'the chain has a hole',
  recheck: 'pages are recycled under a lease',
  rescan: 'pages are recycled under a lease',
  covered: 'a worker is refused the view that its front holds',
  ownFront: 'a worker of another front is refused the view that its front holds',
  frontFirst: 'a view handed over between two looks is recycled',
  coverChecked: 'a row that the front is about to take back covers a record whose pages are gone',
  oldestRow: 'pages are recycled under the older of two leases',
  ringBound: 'a leased record is overwritten',
  clearDead: 'the writer waits for memory for ever',
  clearAfterExit: 'recycled pages are read',
  handed: 'a block becomes canonical whose table is recycled',
  headIsBase: 'the header of a head is read from recycled pages',
  prefixOfBase: 'state at (1, 0) is answered with the whole block 1',
  appendFirst: 'kill -9: a block that was shown as canonical is gone',
  foldWordFirst: 'a view at 1 reads a value of 2',
  foldCheck: 'a view at 1 reads a value of 2',
  checkAfter: 'a view at 1 reads a value of 2',
  foldById: 'a view on a dropped block 2 reads the flat state of the other',
  wholeBlocks: 'a view at (1, 0) reads (1, 1) once block 1 is folded',
  historyAtBase: 'a view on a dropped block 2 finds no entry, and reads the other',
  flatThenHistory: 'the fold comes between: new value, no entry',
  pair: 'overtaken readers see the new value without its entry',
  prevStored: 'a fold begun again after kill -9 stores the new value as the previous one',
  foldRepeated: 'kill -9: flat state stays half of one block and half of the next',
  foldUndone: 'rows of a dropped block stay in flat state',
  baseFromAnswer: 'a block counts as folded while it is being folded',
  unfoldCheck: 'a view mixes two branches',
  unfoldFirst: 'a view mixes two branches',
  unfoldLast: 'the fold word has come back to the base, and the value of a dropped block passes',
  unfoldFromAck: 'a view mixes two branches',
  appendBeforeUnfold: 'kill -9: a lower head than was shown',
  openUnfolds: 'kill -9: flat state of the branch that was left',
  rowsAbove: 'a transaction of a later block is found',
  indexAtFold: 'a transaction of a dropped block is found',
  numberFromChain: 'the number of a block gives no hash, or that of another branch',
  wipe: 'old slots come back',
  pruneFirst: 'a pruned entry gives the latest value',
  pruneCheck: 'a pruned entry gives the latest value',
  horizonDurable: 'kill -9: the horizon is older than the history',
  stampFirst: 'a cached value of before a fold is used',
  cacheStamp: 'a cached value of before a fold is used',
  cacheInChain: 'a view uses a value of after it',
  cacheVoid: 'a stamp that another branch set back lets a value of an older block of its own pass',
  cacheUnfolds: 'a view uses a value of the branch that was left',
  canonicalRoom: 'the canonical block waits for memory for ever',
  handedHeight: 'a second payload drops a block that the keeper holds',
} as const

export type RuleName = keyof typeof RULE_TABLE
export const RULE_NAMES = Object.keys(RULE_TABLE) as readonly RuleName[]
export const without = (name: RuleName): string => RULE_TABLE[name]

export type Rules = Readonly<Record<RuleName, boolean>>
export const ALL_ON = Object.fromEntries(RULE_NAMES.map((name) => [name, true])) as Rules
export const allBut = (name: RuleName): Rules => ({ ...ALL_ON, [name]: false })
