/**
 * Several front threads share one port. This check proves what a client expects of one server, and
 * that a front thread may end under load.
 * Usage: npm run front-threads
 */

import { checks } from '../kit/checks.ts'
import { ended } from './front-threads/ended.ts'
import { oneServer } from './front-threads/one-server.ts'
import { signalled } from './front-threads/signalled.ts'

const { check, close } = checks('front-threads')
for (const [name, part] of Object.entries({ oneServer, ended, signalled }))
  try {
    await part(check)
  } catch (error) {
    check(name, false, (error as Error).stack)
  }
close()
process.exit()
