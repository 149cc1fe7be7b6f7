/** Runs what the command line requests: prints a text, runs a command, or reports the mistake. */
import { COMMANDS } from './commands/index.ts'
import { ConfigError } from './config/command.ts'
import { type Invocation, readInvocation } from './config/config.ts'
import type { Environment } from './config/layers.ts'
import { lastWords } from './observe/reporter.ts'

/** Resolves when the command is done, or when its node runs by itself. */
export async function doCommandLine(
  argv: readonly string[],
  environment: Environment,
): Promise<void> {
  const invocation = invoke(argv, environment)
  if (invocation?.action === 'print') process.stdout.write(invocation.text)
  else if (invocation?.action === 'run')
    await invocation.command.run(invocation.config, invocation.operands)
}

function invoke(argv: readonly string[], environment: Environment): Invocation | undefined {
  try {
    return readInvocation(argv, environment, COMMANDS)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    lastWords(error.message)
    process.exitCode = 2
    return undefined
  }
}
