/** A thread may be terminated while it loads: nothing that it loads may end the process then. */
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'

const file = (path: string) => new URL(`../../${path}`, import.meta.url)

type Loaded = { readonly why: string; readonly addons: readonly string[] }

/** Requires a module in a thread: why it could not be loaded, if so, and the native addons that it brought. */
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
  'keeper/keeper',
  'sequencer/sequencer',
  'feeds/feed',
  'bootstrap/reader',
])(
  'no module of workers/%s.ts awaits while it is loaded: V8 aborts when it is terminated then',
  async (name) => {
    // They are all there and run, and miss at most the data that the node gives the thread.
    expect(['', 'TypeError']).toContain(await whyNotRequired(`workers/${name}.ts`))
  },
  // A busy machine takes long to load all modules of a thread; a hang is seen all the same.
  60_000,
)

test('a module that awaits is found', async () => {
  expect(await whyNotRequired('test/fixtures/awaits.ts')).toBe('ERR_REQUIRE_ASYNC_MODULE')
})

test.each(['workers/pool/execute.ts', 'test/fixtures/pool-worker.ts'])(
  '%s says what requiring it gives: Node aborts when it is terminated while it wraps a default export',
  (path) => {
    expect(readFileSync(file(path), 'utf8')).toContain("as 'module.exports'")
  },
)

test('the pool worker of tests loads no addon: their pools end threads that are still loading', async () => {
  expect((await load('test/fixtures/pool-worker.ts')).addons).toEqual([])
})

test('an addon is seen', async () => {
  expect((await load('workers/pool/execute.ts')).addons.join()).toContain('secp256k1')
})
