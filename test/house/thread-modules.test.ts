/** A thread may be terminated while it loads, so nothing that it loads may end the process then. */
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'

const file = (path: string) => new URL(`../../${path}`, import.meta.url)

type Loaded = { readonly why: string; readonly addons: readonly string[] }

/**
 * Requires a module in a thread, and reports why that failed and which native addons were loaded.
 */
function load(path: string): Promise<Loaded> {
  const source = `
    const { parentPort, workerData } = require('node:worker_threads')
    const { dlopen } = process
    const addons = []
    process.dlopen = (module, name, ...flags) => {
      addons.push(name)
      return dlopen.call(process, module, name, ...flags)
    }
    let why = ''
    try {
      require(workerData.file)
    } catch (error) {
      why = error.code ?? error.name
    }
    parentPort.postMessage({ why, addons })`
  const worker = new Worker(source, { eval: true, workerData: { file: file(path).pathname } })
  return new Promise((resolve, reject) => {
    worker.on('message', (loaded: Partial<Loaded>) => {
      if (loaded.why === undefined) return
      resolve(loaded as Loaded)
      void worker.terminate()
    })
    worker.once('error', reject)
  })
}
const whyNotRequired = async (path: string) => (await load(path)).why

test.each([
  'pool/execute',
  'writer/writer',
  'persistence/persistence',
  'sequencer/sequencer',
  'feed-client/feed',
  'bootstrap/reader',
])(
  'no module of workers/%s.ts awaits while it loads (V8 would abort at a termination)',
  async (name) => {
    // All modules are found and run; at most the data that the node gives to the thread is missing.
    expect(['', 'TypeError']).toContain(await whyNotRequired(`workers/${name}.ts`))
  },
  // A busy machine takes long to load all modules of a thread, but a hang is still detected.
  60_000,
)

test('the test finds a module that awaits', async () => {
  expect(await whyNotRequired('test/fixtures/awaits.ts')).toBe('ERR_REQUIRE_ASYNC_MODULE')
})

test.each(['workers/pool/execute.ts', 'test/fixtures/pool-worker.ts'])(
  '%s names its "module.exports", because Node may abort without the name',
  (path) => {
    expect(readFileSync(file(path), 'utf8')).toContain("as 'module.exports'")
  },
)

test('the pool worker of tests loads no addon, because it may end while it loads', async () => {
  expect((await load('test/fixtures/pool-worker.ts')).addons).toEqual([])
})

test('the test finds an addon that a thread loads', async () => {
  expect((await load('workers/pool/execute.ts')).addons.join()).toContain('secp256k1')
})
