/** The request for readiness states the allowed lag of a node. */
import { expect, onTestFinished, test } from 'vitest'
import { maxLagOf } from '../../../rpc/proxy/lag.ts'
import { startServer } from '../../fixtures/sockets.ts'

test.each<[string | undefined, number | undefined]>([
  [undefined, undefined],
  ['/readyz', undefined],
  ['/readyz?', undefined],
  ['/readyz?other=1', undefined],
  ['/readyz?maxLagMs=1', 1],
  ['/readyz?a=b&maxLagMs=86400000', 86_400_000],
])('the maximum lag is read from %s', (url, maxLagMs) =>
  expect(maxLagOf(url)).toEqual({ maxLagMs }),
)

test.each(['', '0', '-1', '1.5', '1e3', 'soon', '86400001', '999999999', ' 5', '5&maxLagMs=6'])(
  'maxLagMs=%s is refused',
  (text) => {
    const said = maxLagOf(`/readyz?maxLagMs=${text}`)
    expect(said).toHaveProperty('wrong')
  },
)

test('/readyz passes the maximum lag on, and refuses an invalid one', async () => {
  const { server, url } = await startServer({
    readiness: (maxLagMs) => ({
      status: 'ready',
      reasons: [],
      details: { maxLagMs: maxLagMs ?? null },
    }),
  })
  onTestFinished(() => server.close())
  const at = (question: string) => fetch(`${url}/readyz${question}`)
  expect(await (await at('?maxLagMs=250')).json()).toMatchObject({ maxLagMs: 250 })
  expect(await (await at('')).json()).toMatchObject({ maxLagMs: null })
  const refused = await at('?maxLagMs=soon')
  expect(refused.status).toBe(400)
  expect(await refused.text()).toContain('got "soon"')
})
