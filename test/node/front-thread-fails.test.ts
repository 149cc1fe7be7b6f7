/**
 * A front thread fails once while the node starts. A new thread must replace it, and the node must
 * become ready.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import type { Edit } from '../kit/edits.ts'
import { startNode } from '../kit/node.ts'

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

/** The first thread that runs this code ends. */
const once = (file: string): string =>
  `try { process.getBuiltinModule('node:fs').writeFileSync(${JSON.stringify(file)}, '', { flag: 'wx' }); setImmediate(() => { throw new Error('it fails once') }); await new Promise(() => {}) } catch (error) { if (error.code !== 'EEXIST') throw error }\n`

const MOMENTS: [moment: string, edit: Omit<Edit, 'replace'>][] = [
  [
    'while it loads',
    {
      file: 'workers/front-threads/front-thread.ts',
      find: '  const context = openContext(data)\n',
    },
  ],
  [
    'before it reports that it is ready',
    { file: 'workers/front-threads/front-thread.ts', find: "  post({ type: 'ready' })\n" },
  ],
  [
    'while it opens the port',
    {
      file: 'workers/front-threads/front-thread.ts',
      find: '      try {\n        return await front.listen(port, true)\n',
    },
  ],
]

test.each(MOMENTS)('a front thread that ends %s is replaced', async (_, edit) => {
  const folder = await mkdtemp(join(tmpdir(), 'front-thread-'))
  ends.push(() => rm(folder, { recursive: true, force: true }))
  const mark = join(folder, 'failed')
  const edits = [{ ...edit, replace: `${once(mark)}${edit.find}` }]
  const flags = ['--ephemeral', '--front-threads', '2', '--rate-limit', 'off']
  const node = await startNode(flags, 'dev', edits)
  ends.push(() => node.stop())
  expect(await readFile(mark, 'utf8')).toBe('')
  expect(node.output()).toContain('it fails once')
  // The connections are more than one thread of two would get.
  const requested = Array.from({ length: 20 }, async () => {
    const body = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
    const headers = { 'content-type': 'application/json', connection: 'close' }
    const response = await fetch(node.url, { method: 'POST', headers, body })
    return response.json()
  })
  for (const response of await Promise.all(requested))
    expect(response).toMatchObject({ result: '0xc4' })
})
