/**
 * The tests of the server run again with Node's parser, because both parsers have the same rules.
 */
import { reading } from '../../fixtures/sockets.ts'

reading.http = 'node'
await import('./body.test.ts')
await import('../sockets/refusals.test.ts')
await import('./server.test.ts')
await import('./sockets.test.ts')
