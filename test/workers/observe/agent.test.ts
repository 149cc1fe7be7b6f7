/** HAProxy's agent-check gets these responses over its port. */
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { agentLine, startAgent } from '../../../workers/observe/agent.ts'

const weigh = (weight: number) => ({ weight: () => weight })
const health = (status: 'ready' | 'degraded' | 'unready', reasons: readonly string[] = []) => ({
  isStopping: false,
  readiness: () => ({ status, reasons, details: {} }),
})

test.each([
  ['ready', agentLine(health('ready'), weigh(75)), 'up ready 75%\n'],
  ['degraded', agentLine(health('degraded', ['a feed is silent']), weigh(20)), 'up ready 20%\n'],
  ['unready', agentLine(health('unready', ['a', 'b']), weigh(75)), 'down #a, b\n'],
  [
    'unready for reasons that do not fit the line',
    agentLine(health('unready', ['é\r\nup 100%', 'x'.repeat(300)]), weigh(75)),
    `down # up 100%, ${'x'.repeat(190)}\n`,
  ],
  ['ending', agentLine({ ...health('unready'), isStopping: true }, weigh(75)), 'drain\n'],
])('the agent line of a node that is %s has the expected text', (_name, line, expected) =>
  expect(line).toBe(expected),
)

async function request(port: number, said = ''): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  if (said !== '') socket.write(said)
  let text = ''
  for await (const chunk of socket) text += chunk
  return text
}

test('each connection gets one line, whatever it sends', async () => {
  let weight = 100
  const agent = await startAgent({ host: '127.0.0.1', port: 0 }, () => `up ready ${weight}%\n`)
  onTestFinished(agent.close)
  expect(await request(agent.port)).toBe('up ready 100%\n')
  weight = 55
  expect(await request(agent.port, 'anything\n')).toBe('up ready 55%\n')
})

test('a port in use is an error of the system', async () => {
  const agent = await startAgent({ host: '127.0.0.1', port: 0 }, () => '')
  onTestFinished(agent.close)
  const repeated = startAgent({ host: '127.0.0.1', port: agent.port }, () => '')
  await expect(repeated).rejects.toThrow('EADDRINUSE')
})
