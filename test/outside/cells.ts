/**
 * Several front threads on one port: what a client expects of one server, and one of them that ends under load.
 * Usage: npm run cells
 */

import { checks } from '../kit/checks.ts'
import { ended } from './cells/ended.ts'
import { oneServer } from './cells/one-server.ts'
import { told } from './cells/told.ts'

const { check, close } = checks('cells')
for (const [name, part] of Object.entries({ oneServer, ended, told }))
  try {
    await part(check)
  } catch (error) {
    check(name, false, (error as Error).stack)
  }
close()
process.exit()
