/**
 * These words may not occur in file names and identifiers; each has the word to use instead. Each
 * once had a private meaning here, which a reader who knows other nodes could not guess.
 */
import { globSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { expect, test } from 'vitest'
import { identifiersIn, wordsIn } from './identifiers.ts'

type Ban = {
  readonly use: string
  /** These names leave the process, are terms of the field, or come from libraries. */
  readonly except?: readonly string[]
}

/**
 * Marks flags, metrics, stored fields and fields of responses, which docs/operate/names.md lists.
 */
const leavesProcess = (...names: readonly string[]) => names
/** Marks terms of the field and names of libraries. */
const term = (...names: readonly string[]) => names
/** Marks exports and imports of the compiled engine, which has these names in its bytes. */
const ofModule = (...names: readonly string[]) => names

const BANNED: Readonly<Record<string, Ban>> = {
  anew: { use: 'restart or resync' },
  answer: {
    use: 'response, result or outcome',
    except: [
      ...leavesProcess('upstreamAnswerBytes', 'answer', 'answer_not_sent'),
      ...ofModule('ANSWER'),
    ],
  },
  answers: {
    use: 'responses or results',
    except: leavesProcess('sendAnswersBytes', 'answers'),
  },
  ask: { use: 'request' },
  asked: {
    use: 'requested',
    except: [...leavesProcess('asked', 'notAsked'), ...ofModule('ASKED')],
  },
  asks: { use: 'requests' },
  away: {
    use: 'disconnected or unavailable',
    except: leavesProcess('feed_away', 'limitStoreAway', 'limit_store_away'),
  },
  begin: {
    use: 'start',
    except: [
      ...ofModule('blake2fBegin', 'powerBegin', 'beginTransaction'),
      ...term('wasm_on_message_begin'),
    ],
  },
  beginning: { use: 'start' },
  begins: { use: 'starts', except: leavesProcess('begins') },
  begun: { use: 'started', except: leavesProcess('begun', 'state_begun') },
  behind: { use: 'lag', except: leavesProcess('FLASHNODE_BEHIND') },
  caps: { use: 'concurrencyLimits' },
  cell: {
    use: 'frontThread',
    except: [
      ...leavesProcess('cell', 'cell_replaced'),
      ...term('cellProofs', 'verifyCellKzgProofBatch'),
    ],
  },
  cells: {
    use: 'frontThreads',
    except: [
      ...leavesProcess('cells'),
      ...term('CELLS_PER_BLOB', 'verifyCells', 'computeCells', 'computeCellsAndProofs'),
    ],
  },
  course: { use: 'requestContext' },
  distrust: { use: 'haltReason' },
  door: { use: 'the handler of a path' },
  doors: { use: 'the servers of ports' },
  doubt: {
    use: 'suspicion',
    except: leavesProcess('feed_doubt', 'upstream_doubt', 'writer_doubt'),
  },
  doubts: { use: 'suspicions' },
  fate: { use: 'outcome', except: leavesProcess('fate') },
  fates: { use: 'outcomes', except: leavesProcess('fates') },
  figures: { use: 'stats' },
  fold: { use: 'persist', except: leavesProcess('foldDepth', 'fold_lag', 'foldLag') },
  folded: { use: 'persisted', except: leavesProcess('foldedNumber') },
  folding: { use: 'persisting' },
  folds: { use: 'persists' },
  handed: { use: 'submitted' },
  hears: { use: 'onEvent' },
  held: {
    use: 'buffered, pinned or blocked',
    except: [
      ...leavesProcess('feedHeldFrames', 'feedHeldBytes', 'heldFlashblocks', 'heldFrames'),
      ...leavesProcess('heldBytes', 'held_frames', 'held_bytes', 'view_held_pages', 'held'),
    ],
  },
  joined: { use: 'what was concatenated or connected' },
  keeper: { use: 'persistence' },
  kept: {
    use: 'cached or retained',
    except: leavesProcess('keptUpTo', 'kept', 'keptTextBytes', 'keptLogsBytes'),
  },
  laid: { use: 'overlay' },
  lane: { use: 'queueClass, or reorderBuffer in the writer', except: leavesProcess('lane') },
  lanes: { use: 'queueClasses' },
  lay: { use: 'overlay' },
  leaders: { use: 'sequencers' },
  least: { use: 'min' },
  legacy: {
    use: 'forwarding',
    except: [
      ...leavesProcess('legacyMs', 'legacyResponseBytes', 'legacyCallsPerClient', 'legacyRpc'),
      ...leavesProcess('legacyCallsTotal', 'legacyCalls', 'legacyErrors', 'legacyInFlight'),
      ...term('Legacy', 'isLegacy', 'legacyBase', 'LegacyTransaction', 'legacy', 'signedLegacy'),
      ...term('legacyItems'),
    ],
  },
  marks: { use: 'labelledHeads' },
  mishap: { use: 'incident' },
  mishaps: { use: 'incidents', except: leavesProcess('mishaps') },
  momentary: { use: 'partial', except: leavesProcess('momentary') },
  most: { use: 'max', except: leavesProcess('atMost') },
  near: {
    use: 'the distance or the condition',
    except: leavesProcess('near', 'FLASHNODE_LIMIT_NEAR_TURN_MS'),
  },
  paid: { use: 'prepaid' },
  patience: { use: 'timeout' },
  place: {
    use: 'flashblockId, location, index, path or permit',
    except: [
      ...leavesProcess('placeWaitMs', 'placeWaitsPerClient', 'placeWaitsTotal', 'place'),
      ...leavesProcess('placeWaiting', 'placeExpired'),
    ],
  },
  places: {
    use: 'positions, locations, entries, paths or permits',
    except: leavesProcess('placesTold', 'placesUntold', 'placesHeard', 'places_not_shared'),
  },
  purse: { use: 'bucket' },
  rests: { use: 'backoff', except: leavesProcess('rests') },
  rival: { use: 'competing' },
  rivals: { use: 'competing' },
  room: { use: 'gasPool or capacity' },
  scout: { use: 'prefetch', except: leavesProcess('scoutMs') },
  seam: { use: 'the folder that owns it, or rpc/core' },
  shelf: { use: 'reorderBuffer' },
  show: { use: 'display or publish', except: term('show', 'showSuggestionAfterError') },
  showing: { use: 'visible' },
  shown: {
    use: 'visible or seen',
    except: leavesProcess('shownHoldMs', 'shownClients', 'shownAddresses', 'shown'),
  },
  shows: {
    use: 'displays',
    except: [
      ...leavesProcess('shows'),
      ...ofModule('SHOWS_MEMORY', 'SHOWS_RETURN_DATA', 'SHOWS_STACK'),
    ],
  },
  suffered: { use: 'the condition' },
  tape: { use: 'recording' },
  tell: { use: 'notify or report' },
  teller: { use: 'events' },
  tells: { use: 'reports' },
  told: {
    use: 'emitted, notified or reported',
    except: [...leavesProcess('placesTold', 'sharedTold'), ...ofModule('TOLD')],
  },
  unfold: { use: 'unwind' },
  unfolded: { use: 'unwound' },
  untold: {
    use: 'the condition',
    except: leavesProcess('cacheDroppedUntold', 'placesUntold', 'sharedUntold'),
  },
  visits: { use: 'nonRpcRequests' },
  voices: { use: 'votes' },
  whole: { use: 'full, complete or integer', except: leavesProcess('isWhole', 'whole') },
}

const FILES = globSync('{engine,rpc,workers,bench,test}/**/*.ts', {
  // This file contains all banned words.
  exclude: (path) => /node_modules|fixtures\/names|words\.test\.ts/.test(path),
})

const banOf = (name: string): string | undefined => {
  for (const word of wordsIn(name)) {
    const ban = Object.hasOwn(BANNED, word) ? BANNED[word] : undefined
    if (ban !== undefined && ban.except?.includes(name) !== true)
      return `${name}: ${word} is not a word of this project, use ${ban.use}`
  }
  return undefined
}

test.each(FILES)('no name in %s has a banned word', (file) => {
  const names = new Set(identifiersIn(readFileSync(file, 'utf8')))
  names.add(basename(file).replace(/\..*$/, '').replaceAll('-', '_'))
  const found = [...names].map(banOf).filter((fault) => fault !== undefined)
  expect(found).toEqual([])
})

test('each exception for a banned word is still needed', () => {
  const names = new Set(FILES.flatMap((file) => [...identifiersIn(readFileSync(file, 'utf8'))]))
  const unused = Object.values(BANNED).flatMap(({ except = [] }) =>
    except.filter((name) => !names.has(name)),
  )
  expect(unused).toEqual([])
})

test.each([
  ['a word of a camel case name', 'const keeperAnew = 1', ['keeperAnew']],
  ['a private field', 'class A { #anew = 1 }', ['anew']],
  ['an expression of a template', 'const a = `anew $' + '{b.anew} anew`', ['anew']],
  [
    'no name in texts, comments and patterns',
    "const a = 'anew' // anew\n/* anew */ const b = /anew/",
    [],
  ],
])('the search finds %s', (_, text, found) => {
  expect([...identifiersIn(text)].filter((name) => banOf(name) !== undefined)).toEqual(found)
})
