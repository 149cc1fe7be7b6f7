/** A front thread that fails once while the node starts: another one takes its place, and the node is ready all the same. */
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

/** The first thread that comes here ends. */
const once = (file: string): string =>
  `try { process.getBuiltinModule('node:fs').writeFileSync(${JSON.stringify(file)}, '', { flag: 'wx' }); setImmediate(() => { throw new Error('it fails once') }); await new Promise(() => {}) } catch (error) { if (error.code !== 'EEXIST') throw error }\n`

const MOMENTS: [moment: string, edit: Omit<Edit, 'replace'>][] = [
  [
    'while it loads',
    { file: 'workers/cells/cell.ts', find: '  const context = openContext(data)\n' },
  ],
  [
    'before it says that it can be asked',
    { file: 'workers/cells/cell.ts', find: "  post({ type: 'ready' })\n" },
  ],
  [
    'while it opens the port',
    {
      file: 'workers/cells/cell.ts',
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
  // More connections than one thread would get of two.
  const asked = Array.from({ length: 20 }, async () => {
    const body = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
    const headers = { 'content-type': 'application/json', connection: 'close' }
    const response = await fetch(node.url, { method: 'POST', headers, body })
    return response.json()
  })
  for (const answer of await Promise.all(asked)) expect(answer).toMatchObject({ result: '0xc4' })
})
