/**
 * This module reads how `npm run flashnode` starts a node. Only package.json has the flags of Node
 * and the variables of its process.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export type StartScript = {
  /** These arguments precede the file that is run. */
  readonly execArgv: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/**
 * Reads the start script of a checkout.
 * @param checkout the directory of the node
 */
export function readStartScript(checkout = '.'): StartScript {
  const { scripts } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const script = scripts['flashnode'] ?? ''
  const [, variables, flags] = /^exec env (.*?) node (.*) workers\/main\.ts$/.exec(script) ?? []
  if (variables === undefined || flags === undefined)
    throw new Error(`the script "flashnode" of package.json is not as expected: ${script}`)
  return {
    execArgv: flags.split(' '),
    env: Object.fromEntries(variables.split(' ').map((one) => one.split('=') as [string, string])),
  }
}
