/** The tests of the door once more, where Node reads every request: the rules are the same on both ways. */
import { reading } from '../../fixtures/sockets.ts'

reading.http = 'node'
await import('./body.test.ts')
await import('../sockets/refusals.test.ts')
await import('./server.test.ts')
await import('./sockets.test.ts')
