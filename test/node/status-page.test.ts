/**
 * The node serves the status page: the tests check its readers, its headers, and the messages of
 * its WebSocket.
 */
import { createHash } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import type { Adopt } from '../../rpc/http/upgrades.ts'
import type { LiveMessage } from '../../rpc/page/messages.ts'
import { startAdmin } from '../../workers/observe/admin.ts'
import { createPageFiles } from '../../workers/observe/page-files.ts'
import { openSocket, startServer } from '../fixtures/sockets.ts'
import { call, type RunningNode, startNode } from '../kit/node.ts'

const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
/** An import map must name these imports. */
const LIBRARY_IMPORT = /^import[^'"]*?from ?['"]([^.'"][^'"]*)['"]/gm
const open: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of open.splice(0)) await close()
})

async function served(cors: readonly string[] = ['*']) {
  const live = () => ({})
  const { server, url } = await startServer({ cors, status: { ...createPageFiles(), live } })
  open.push(() => server.close())
  return url
}

describe('the files of the page', async () => {
  const files = createPageFiles()
  const html = await files.html()
  const body = String(html.body)
  const names = [...body.matchAll(/(?:href|src)="page\/([^"]+)"/g)].map(([, name]) => name!)
  const modules = names.filter((name) => /\.[jt]s$/.test(name))
  const textOf = async (name: string) => String((await files.file(name))?.body)

  test('include each file that the page names', async () => {
    expect(modules.length).toBeGreaterThan(15)
    for (const name of names) expect(await files.file(name), name).toBeDefined()
  })
  test.each(modules)('are without types: %s', async (name) => {
    expect(await textOf(name)).not.toMatch(/import type|: readonly |\bas const\b|\btype \w+ = /)
  })
  test('include each library that a module imports', async () => {
    const { imports } = JSON.parse(/<script type="importmap">(.*)<\/script>/.exec(body)![1]!)
    for (const name of modules)
      for (const [, from] of (await textOf(name)).matchAll(LIBRARY_IMPORT)) {
        const file = await files.file(imports[from!]?.slice('./page/'.length))
        expect(file, `${from} of ${name}`).toBeDefined()
      }
  })
  test('allow the one inline script by its hash, and no other script', () => {
    const scripts = [...body.matchAll(/<script[^>]*>([^<]+)<\/script>/g)].map(([, text]) => text!)
    expect(scripts).toHaveLength(1)
    const hash = createHash('sha256').update(scripts[0]!).digest('base64')
    const policy = html.headers['content-security-policy']!
    expect(policy).toContain(`script-src 'self' 'sha256-${hash}';`)
    expect(policy).not.toMatch(/unsafe|\*|https?:/)
    expect(body).not.toMatch(/\son\w+=|style=|https?:/)
  })
  test.each(['', '../index.html', 'index.html', 'tsconfig.json', 'main.ts', '__proto__'])(
    'do not include %j',
    async (name) => expect(await files.file(name)).toBeUndefined(),
  )
})

describe('the public port', () => {
  test('serves the page to browsers at / only', async () => {
    const url = await served()
    const page = await fetch(url, { headers: BROWSER })
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(await page.text()).toContain('/main.ts')
    const before = '<!doctype html><title>a node</title>'
    for (const accept of ['*/*', 'application/json'])
      expect(await (await fetch(url, { headers: { accept } })).text()).toBe(before)
    expect(await (await fetch(`${url}/flashblocks`, { headers: BROWSER })).text()).toBe(before)
  })
  test('serves no file and no socket of the page if the page is off', async () => {
    const { server, url } = await startServer()
    open.push(() => server.close())
    expect(await (await fetch(url, { headers: BROWSER })).text()).toContain('a node')
    expect((await fetch(`${url}/page/x`)).status).toBe(404)
    await expect(openSocket(`${url.replace('http', 'ws')}/page/live`)).rejects.toThrow('404')
  })
  test('accepts the socket of its own page, but not of a foreign origin', async () => {
    const url = await served(['https://app.example'])
    const socket = `${url.replace('http', 'ws')}/page/live`
    await expect(openSocket(socket, { origin: 'https://evil.example' })).rejects.toThrow('403')
    const own = await openSocket(socket, { origin: url })
    own.close()
    await own.closed
  })
})

describe('the admin port', () => {
  async function admin() {
    const adopted: unknown[] = []
    const adopt: Adopt = ({ socket }, what) => {
      adopted.push(typeof what)
      socket.end('HTTP/1.1 418 seen\r\nconnection: close\r\n\r\n')
    }
    const pages = { '/': () => ({ type: 'application/json', text: '{}' }) }
    const status = { ...createPageFiles(), openInside: () => ({}) }
    const server = await startAdmin(0, pages, { status, adopt })
    open.push(server.close)
    return { url: `http://127.0.0.1:${server.port}`, port: server.port, adopted }
  }
  test('serves the page to browsers and JSON to other clients', async () => {
    const { url } = await admin()
    expect(await (await fetch(url, { headers: BROWSER })).text()).toContain('/main.ts')
    expect(await (await fetch(url)).json()).toEqual({})
    const post = await fetch(url, { method: 'POST', headers: BROWSER })
    expect(await post.json()).toEqual({})
  })
  test.each([
    ['/page/live', 'http://evil.example', '127.0.0.1', '403'],
    ['/page/live', 'http://127.0.0.1:1', '127.0.0.1', '403'],
    ['/flashblocks', 'null', '127.0.0.1', '403'],
    ['/page/live', 'http://evil.example', 'evil.example', '403'],
    ['/metrics', undefined, '127.0.0.1', '404'],
  ])(
    'refuses the socket %s of origin %s at host %s with %s',
    async (path, origin, host, status) => {
      const { url, port, adopted } = await admin()
      const headers = { host: `${host}:${port}`, ...(origin === undefined ? {} : { origin }) }
      await expect(openSocket(`${url.replace('http', 'ws')}${path}`, headers)).rejects.toThrow(
        status,
      )
      expect(adopted).toEqual([])
    },
  )
  test('accepts sockets of its own page and of clients without an origin', async () => {
    const { url, adopted } = await admin()
    const socket = url.replace('http', 'ws')
    await expect(openSocket(`${socket}/page/live`, { origin: url })).rejects.toThrow('418')
    await expect(openSocket(`${socket}/flashblocks`)).rejects.toThrow('418')
    expect(adopted).toEqual(['function', 'string'])
  })
})

describe('a development node', () => {
  async function receive(node: RunningNode, path: string, isDone: (all: LiveMessage[]) => boolean) {
    const socket = await openSocket(`${node.url.replace('http', 'ws')}${path}`)
    const all: LiveMessage[] = []
    while (!isDone(all)) all.push(...(JSON.parse(await socket.next()) as LiveMessage[]))
    socket.close()
    await socket.closed
    return all
  }
  const has = (all: LiveMessage[], type: LiveMessage['type']) =>
    all.some((one) => one.type === type)

  test('sends flashblocks, seals and stats to the page, but no internal details', async () => {
    const node = await startNode(['--ephemeral'])
    try {
      const all = await receive(
        node,
        '/page/live',
        (reported) => has(reported, 'sealed') && has(reported, 'figures'),
      )
      expect(all[0]).toMatchObject({
        type: 'hello',
        mode: 'dev',
        isInside: false,
        hasControls: true,
      })
      const timed = all.find((one) => one.type === 'flashblock' && one.at !== undefined)
      expect(timed).toMatchObject({ payloadId: expect.stringMatching(/^0x/), gasLimit: 50_000_000 })
      const stats = all.findLast((one) => one.type === 'figures')
      expect(stats).toMatchObject({ status: 'ready' })
      expect(stats).not.toHaveProperty('inside')
      await call(`${node.url}/flashblocks`, 'dev_reorg', [{ depth: 1 }])
      const repeated = await receive(node, '/page/live', (reported) => reported.length > 2)
      expect(has(repeated, 'flashblock')).toBe(true)
    } finally {
      await node.stop()
    }
  })

  test('serves no page and no socket of the page with --page off', async () => {
    const node = await startNode(['--ephemeral', '--page', 'off'])
    try {
      const page = await (await fetch(node.url, { headers: BROWSER })).text()
      expect(page).toContain('Point a wallet or a library at one of these')
      await expect(openSocket(`${node.url.replace('http', 'ws')}/page/live`)).rejects.toThrow('404')
    } finally {
      await node.stop()
    }
  })
})
