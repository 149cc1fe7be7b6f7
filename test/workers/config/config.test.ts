/**
 * The configuration comes in layers, each value has an origin, and each invalid form has a one-line
 * error.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../rpc/core/limits.ts'
import { COMMANDS } from '../../../workers/commands/index.ts'
import { closestName } from '../../../workers/config/closest-name.ts'
import { ConfigError, defineCommand, kebab } from '../../../workers/config/command.ts'
import { readInvocation } from '../../../workers/config/config.ts'
import { isLimit, isListedLimit } from '../../../workers/config/help-groups.ts'
import { environmentName } from '../../../workers/config/layers.ts'
import { needed } from '../../../workers/config/option.ts'
import type { NodeConfig } from '../../../workers/config/serving-options.ts'

const directory = mkdtempSync(join(tmpdir(), 'flashnode-config-'))
afterAll(() => rmSync(directory, { recursive: true }))
function file(content: string): string {
  const path = join(directory, `${Buffer.from(content).toString('base64url').slice(0, 60)}.json`)
  writeFileSync(path, content)
  return path
}

type Environment = Record<string, string>
type Read = NodeConfig & { readonly [name: string]: unknown }
function read(argv: string[], environment: Environment = {}): Read {
  const invocation = readInvocation(argv, environment, COMMANDS)
  if (invocation.action !== 'run') throw new Error(`no node: ${JSON.stringify(invocation)}`)
  return invocation.config as Read
}
function printed(argv: string[], environment: Environment = {}): string {
  const invocation = readInvocation(argv, environment, COMMANDS)
  if (invocation.action !== 'print') throw new Error('did not print')
  return invocation.text
}
function problem(argv: string[], environment: Environment = {}): string {
  try {
    readInvocation(argv, environment, COMMANDS)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  throw new Error('accepted')
}

describe('a configuration value', () => {
  test('has the defaults of dev or serve', () => {
    expect(read(['dev'])).toMatchObject({
      chain: 'xlayer',
      datadir: '.flashnode/dev-xlayer',
      host: '127.0.0.1',
      port: 8545,
      adminPort: 8546,
      rateLimit: 100,
      receiptHold: 300,
      blockTimeMs: 1000,
      flashblockTimeMs: 200,
      limits: { ...DEFAULT_LIMITS, socketsPerClient: 4_096 },
    })
    const serve = read(['serve'])
    expect(serve).toMatchObject({ chain: undefined, adminPort: 0, limits: DEFAULT_LIMITS })
    expect(read(['dev', '--chain', 'x/my-chain.json']).datadir).toBe('.flashnode/dev-my-chain')
    expect(read(['dev', '--ephemeral']).datadir).toBe(undefined)
  })

  test('comes from the flag, then the environment, then the file, then the default', () => {
    const path = file('{"port": 1, "host": "127.0.0.3", "rate-limit": "off", "cors": ["a", "b"]}')
    const environment = { FLASHNODE_CONFIG: path, FLASHNODE_PORT: '2', FLASHNODE_HOST: '127.0.0.2' }
    expect(read(['dev', '--port', '3'], environment)).toMatchObject({
      port: 3,
      host: '127.0.0.2',
      rateLimit: 'off',
      cors: ['a', 'b'],
    })
  })

  test('of a switch can be turned off by a stronger layer', () => {
    const path = file('{"allow-insecure-unlock": true}')
    expect(read(['dev', '--config', path]).allowInsecureUnlock).toBe(true)
    const environment = { FLASHNODE_ALLOW_INSECURE_UNLOCK: 'false' }
    expect(read(['dev', '--config', path], environment).allowInsecureUnlock).toBe(false)
  })

  test('ignores empty environment variables and those of other programs', () => {
    expect(read(['dev'], { FLASHNODE_PORT: '', PORT: '1', flashnode_port: '1' }).port).toBe(8545)
  })

  test('exists for every limit', () => {
    for (const name of Object.keys(DEFAULT_LIMITS) as (keyof typeof DEFAULT_LIMITS)[])
      expect(read(['dev', `--limit-${kebab(name)}`, '7']).limits[name]).toBe(7)
  })

  test.each(['shown', 'announced'] as const)('of 0 turns a hold off: %s', (name) => {
    const { limits } = read(['dev', `--limit-${name}-hold-ms`, '0'])
    expect(limits[`${name}HoldMs`]).toBe(0)
    expect(() => read(['dev', '--limit-call-ms', '0'])).toThrow('expected an integer from 1 to')
  })

  test('has a unique name in the environment', () => {
    const { commands } = COMMANDS
    const keys = new Set(commands.flatMap(({ flags }) => Object.keys(flags).map(kebab)))
    expect(new Set([...keys].map(environmentName)).size).toBe(keys.size)
    expect(environmentName('rate-limit')).toBe('FLASHNODE_RATE_LIMIT')
  })

  test('of another command may be in a shared file or environment', () => {
    const config = read(['serve', '--config', file('{"chain-id": 5}')], { FLASHNODE_CHAIN_ID: '6' })
    expect(config).not.toHaveProperty('chainId')
  })
})

test('migrate needs a data directory, from a flag, the environment or a file', () => {
  expect(read(['migrate', '--datadir', 'x/data']).datadir).toBe('x/data')
  expect(read(['migrate'], { FLASHNODE_DATADIR: 'x/data' }).datadir).toBe('x/data')
  expect(read(['migrate', '--config', file('{"datadir": "x/data"}')]).datadir).toBe('x/data')
  expect(problem(['migrate'])).toBe('migrate needs --datadir DIR')
  expect(problem(['migrate', '--port', '1'])).toContain('unknown flag --port')
  expect(printed(['migrate', '--help'])).toContain('--datadir <DIR>')
})

test('operands are counted and parsed', () => {
  const [a, b] = ['http://a/', 'http://b/']
  const invocation = readInvocation(['compare', a, '--blocks', '5-7', b], {}, COMMANDS)
  expect(invocation).toMatchObject({
    operands: [a, b],
    config: { blocks: { from: 5, to: 7 }, perBlock: 8 },
  })
  const example = 'example: flashnode compare http://127.0.0.1:8545/ https://other.example'
  expect(problem(['compare', a])).toBe(`compare needs <URL> <URL>, got 1; ${example}`)
  expect(problem(['compare', a, b, a])).toBe(`compare needs <URL> <URL>, got 3; ${example}`)
  expect(problem(['compare'])).toContain('needs <URL> <URL>, got 0')
  expect(problem(['bench'])).toContain('bench needs <URL> [URL…], got 0; example: flashnode bench')
  const nine = Array.from({ length: 9 }, () => a)
  expect(problem(['bench', ...nine])).toContain('[URL…], at most 8 of them, got 9')
  expect(problem(['compare', a, 'b'])).toContain('compare URL "b": expected a URL such as')
  expect(problem(['compare', a, b, '--blocks', '7-5'])).toContain('expected a number of blocks')
  expect(problem(['verify', 'more'])).toContain('unexpected argument "more"')
  expect(printed(['compare', '--help'])).toContain('flashnode compare [options] <URL> <URL>\n')
})

test('verify needs a data directory, and takes a sample size', () => {
  expect(problem(['verify'])).toBe('verify needs --datadir DIR')
  expect(read(['verify', '--datadir', 'd'])['sample']).toBe(undefined)
  expect(read(['verify', '--datadir', 'd', '--sample', '7'])['sample']).toBe(7)
  expect(problem(['verify', '--datadir', 'd', '--sample', '0'])).toContain('integer from 1')
})

test('doctor needs no options', () => {
  expect(read(['doctor'])).toMatchObject({ upstream: [], feed: [], sample: 16, feedMs: 6_000 })
  expect(problem(['doctor', '--upstream', 'node'])).toContain('expected a URL such as')
  expect(problem(['doctor', '--feed-ms', '5'])).toContain('integer from 100')
})

test('a public host is allowed by a flag, without accounts, or on loopback', () => {
  const host = '0.0.0.0'
  expect(read(['dev', '--host', host, '--allow-insecure-unlock']).host).toBe(host)
  expect(read(['serve', '--host', host]).host).toBe(host)
  for (const loopback of ['127.0.0.1', '127.1.2.3', '::1', 'localhost'])
    expect(read(['dev', '--host', loopback]).host).toBe(loopback)
})

describe('an invalid configuration', () => {
  const cases: [argv: string[], environment: Environment, line: string][] = [
    [['dev', '--prot', '1'], {}, 'unknown flag --prot; nearest: --port'],
    [['dev', '--prot=1'], {}, 'unknown flag --prot; nearest: --port'],
    [
      ['dev', '--ephemeral=yes'],
      {},
      'flag --ephemeral takes no value: give it alone, or leave it out',
    ],
    [['serve', '--limt-cal-ms'], {}, 'unknown flag --limt-cal-ms; nearest: --limit-call-ms'],
    [['serve', '--limit-cal'], {}, 'unknown flag --limit-cal; nearest: --limit-call-ms'],
    [['serve', '--hold', '3'], {}, 'unknown flag --hold; nearest: --receipt-hold'],
    [['serve', '--cache', '3'], {}, 'unknown flag --cache; nearest: --db-cache'],
    [['import', '--histry', '3'], {}, 'unknown flag --histry; nearest: --history-blocks'],
    [['import-state', '--blok', 'b'], {}, 'unknown flag --blok; nearest: --block'],
    [['migrate', '--data', 'x'], {}, 'unknown flag --data; nearest: --datadir'],
    [
      ['dev', '--fork-url', 'x'],
      {},
      'unknown flag --fork-url; --help lists the flags of a command',
    ],
    [['dev', '--zzz'], {}, 'unknown flag --zzz; --help lists the flags of a command'],
    [
      ['follow', '--apply=ws://10.0.0.1:8545/feed'],
      {},
      'unknown flag --apply; it was removed: a follower executes every flashblock itself',
    ],
    [
      ['follow'],
      { FLASHNODE_VERIFY_SHARE: '0.1' },
      'unknown variable FLASHNODE_VERIFY_SHARE in the environment; it was removed: a follower executes every flashblock itself',
    ],
    [['replicate'], {}, 'unknown command "replicate"; --help lists them'],
    [
      ['dev', '--methods', 'everything'],
      {},
      'flag --methods: "everything": expected all, standard',
    ],
    [
      ['dev'],
      { FLASHNODE_FORK_URL: 'x' },
      'unknown variable FLASHNODE_FORK_URL in the environment; each flag of --help has one',
    ],
    [['dev', '--port'], {}, 'flag --port needs a value: --port <PORT>'],
    [['dev', '--port', '65536'], {}, 'flag --port: "65536": expected an integer from 0 to 65535'],
    [['dev', '--port', '1e3'], {}, 'flag --port: "1e3": expected an integer from 0 to 65535'],
    [
      ['dev'],
      { FLASHNODE_PORT: 'x' },
      'environment FLASHNODE_PORT: "x": expected an integer from 0 to 65535',
    ],
    [
      ['dev'],
      { FLASHNODE_PROT: '1' },
      'unknown variable FLASHNODE_PROT in the environment; nearest: FLASHNODE_PORT',
    ],
    [['dev', '--http', 'nod'], {}, 'flag --http: "nod": expected llhttp, node; nearest: node'],
    [['dev', '--methods', 'al'], {}, 'flag --methods: "al": expected all, standard; nearest: all'],
    [
      ['dev', '--rate-limit', 'on'],
      {},
      'flag --rate-limit: "on": expected an integer from 1 to 1000000, or "off"',
    ],
    [
      ['dev', '--trust-proxy', '10.0.0.0/8,x'],
      {},
      'flag --trust-proxy: "10.0.0.0/8,x": "x" is not an address or a range such as 10.0.0.0/8',
    ],
    [
      ['dev', '--proxy-protocol', '10.0.0.0/33'],
      {},
      'flag --proxy-protocol: "10.0.0.0/33": "10.0.0.0/33" is not an address or a range such as 10.0.0.0/8',
    ],
    [
      ['dev', '--agent-port', '8545'],
      {},
      '--agent-port and --port or --admin-port are the same: give another --agent-port, or 0 for none',
    ],
    [
      ['dev', '--block-time-ms', '1500'],
      {},
      'flag --block-time-ms: "1500": expected a multiple of 1000, such as 2000, because timestamps are whole seconds',
    ],
    [
      ['dev', '--flashblock-time-ms', '2000'],
      {},
      '--flashblock-time-ms is longer than --block-time-ms: give a shorter one',
    ],
    [
      ['dev', '--ephemeral', '--datadir', 'x'],
      {},
      '--ephemeral and --datadir exclude each other: leave one out',
    ],
    [
      ['dev', '--port', '8546'],
      {},
      '--admin-port and --port are the same: give another --admin-port, or 0 for none',
    ],
    [
      ['serve', '--unlock', `0x${'1'.repeat(40)}`],
      {},
      '--unlock needs --keystore DIR and --password-file FILE',
    ],
    [
      `serve --unlock 0x${'1'.repeat(40)} --keystore k --password-file p --host 0.0.0.0`.split(' '),
      {},
      '--unlock on the public --host 0.0.0.0 lets anybody spend: add --allow-insecure-unlock if you want this',
    ],
    ...['0.0.0.0', '::', '192.168.1.2', 'example.org'].map((host): (typeof cases)[number] => [
      ['dev', '--host', host],
      {},
      `dev on the public --host ${host} lets anybody spend and deposit, because its accounts are unlocked: add --allow-insecure-unlock if you want this`,
    ]),
    ...['follow', 'record --out x'].map((command): (typeof cases)[number] => [
      [...command.split(' '), '--chain', 'my.json'],
      {},
      '--upstream URL is required: this version knows no public upstream of my.json',
    ]),
    [['import'], {}, 'import needs --genesis FILE'],
    [['import', '--genesis', 'g'], {}, 'import needs --chain FILE'],
    [
      ['import', '--genesis', 'g', '--chain', 'c', '--head', '0x1'],
      {},
      'flag --head: "0x1": expected 0x and 64 hex digits',
    ],
    [['serve', '--chain-id', '5'], {}, 'unknown flag --chain-id; nearest: --chain'],
    [['deev'], {}, 'unknown command "deev"; nearest: dev'],
    [['config', 'chek'], {}, 'unknown command "config chek": expected config check or config dump'],
    [
      ['dev', 'now'],
      {},
      'unexpected argument "now": each value needs its flag, such as --port 8545',
    ],
  ]
  test.each(cases)('is refused in one line: %j %j', (argv, environment, line) => {
    expect(problem(argv, environment)).toBe(line)
  })

  test('with a removed flag is refused with the reason, in every layer', () => {
    const gone = 'it was removed: every call runs in a worker'
    expect(problem(['dev', '--limit-near-turn-ms', '2'])).toBe(
      `unknown flag --limit-near-turn-ms; ${gone}`,
    )
    expect(problem(['serve'], { FLASHNODE_LIMIT_NEAR_TURN_MS: '2' })).toBe(
      `unknown variable FLASHNODE_LIMIT_NEAR_TURN_MS in the environment; ${gone}`,
    )
    const path = file('{"limit-near-turn-ms": 2}')
    expect(problem(['dev', '--config', path])).toBe(
      `unknown key "limit-near-turn-ms" in ${path}; ${gone}`,
    )
  })

  test('with a renamed flag is refused with the new name, in every layer', () => {
    const renamed = 'its new name is --flashblock-lag'
    expect(problem(['dev', '--behind', '1'])).toBe(`unknown flag --behind; ${renamed}`)
    expect(problem(['follow'], { FLASHNODE_BEHIND: '1' })).toBe(
      `unknown variable FLASHNODE_BEHIND in the environment; ${renamed}`,
    )
    const path = file('{"behind": 1}')
    expect(problem(['dev', '--config', path])).toBe(`unknown key "behind" in ${path}; ${renamed}`)
  })

  test('with a misspelled common prefix gets one nearest name, in every layer', () => {
    for (const argv of ['dev', 'serve', 'config check', 'config dump serve'])
      expect(problem([...argv.split(' '), '--limt', '3'])).toMatch(
        /^unknown flag --limt; nearest: --limit-\w+$/,
      )
    expect(problem(['serve'], { FLASHNODE_LIMT: '3' })).toMatch(/nearest: FLASHNODE_LIMIT_\w+$/)
    expect(problem(['dev', '--config', file('{"limt": 1}')])).toMatch(/nearest: limit-\w+$/)
  })

  const files: [content: string, line: string][] = [
    ['{"prot": 1}', 'unknown key "prot" in FILE; nearest: port'],
    ['{"port": "x"}', 'file FILE, key "port": "x": expected an integer from 0 to 65535'],
    [
      '{"port": {}}',
      'FILE, key "port": expected a text, a number, true or false, or a list of them',
    ],
    ['[1]', 'FILE: expected an object'],
  ]
  test.each(files)('in a file is refused: %s', (content, line) => {
    const path = file(content)
    expect(problem(['dev', '--config', path])).toBe(line.replace('FILE', path))
  })

  test('in a missing file, or in one that is no JSON, is refused', () => {
    expect(problem(['dev', '--config', file('{')])).toMatch(/^configuration file .*JSON/)
    expect(problem(['dev', '--config', '/nowhere.json'])).toMatch(/ENOENT/)
  })

  test('is refused in one line, whatever the arguments are', () => {
    const word = fc.oneof(
      fc.constantFrom('dev', 'serve', 'config', 'dump', '--port', '--chain', '--ephemeral', '--'),
      fc.string({ maxLength: 8 }),
    )
    fc.assert(
      fc.property(fc.array(word, { maxLength: 5 }), (argv) => {
        try {
          expect(readInvocation(argv, {}, COMMANDS).action).toMatch(/run|print/)
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError)
          if (!argv.some((argument) => argument.includes('\n')))
            expect((error as Error).message).not.toContain('\n')
        }
      }),
    )
  })
})

describe('the command line', () => {
  test('has the flags of a command in its help, and the version', () => {
    const [short, limits] = [printed(['dev', '--help']), printed(['dev', '--help', 'limits'])]
    const help = `${short}${limits}`
    for (const { flags } of COMMANDS.commands)
      for (const name of Object.keys(flags)) {
        const isListed = !isLimit(name) || isListedLimit(name)
        const isOfDev = name in COMMANDS.commands[0].flags
        expect(help.includes(`--${kebab(name)} `), name).toBe(isListed && isOfDev)
      }
    expect(short).toContain('flashnode dev --port 9000 --ephemeral\n')
    expect(short).toMatch(/^Serving:\n {2}--host /m)
    expect(short).not.toContain('--limit-body-bytes')
    expect(limits).toContain('--limit-body-bytes')
    expect(limits).not.toContain('--port')
    expect(printed(['import', '--help'])).toContain('--genesis <FILE>')
    expect(printed(['import', '--help'])).not.toContain('--port')
    expect(printed(['serve', '--help'])).not.toContain('--block-time-ms')
    expect(printed(['--help'])).toContain('serve')
    expect(printed(['--version'])).toMatch(/^flashnode \d+\.\d+\.\d+/)
  })

  test('has valid examples in the help of each command', () => {
    for (const { name, examples = [] } of COMMANDS.commands) {
      expect(examples, name).not.toHaveLength(0)
      const help = printed([name, '--help'])
      for (const example of examples) {
        expect(help).toContain(`  flashnode ${name} ${example}`.trimEnd())
        const argv = example === '' ? [] : example.split(' ')
        expect(readInvocation([name, ...argv], {}, COMMANDS).action).toBe('run')
      }
    }
  })

  test('treats help COMMAND like COMMAND --help, with the overview for unknown names', () => {
    expect(printed(['help', 'doctor'])).toBe(printed(['doctor', '--help']))
    expect(printed(['help', 'dev', 'limits'])).toBe(printed(['dev', '--help', 'limits']))
    for (const argv of [['help'], ['help', 'me'], ['help', 'config'], []])
      expect(printed(argv)).toBe(printed(['--help']))
  })

  test('has the main options of a command first, and limits in a separate help', () => {
    expect(printed(['compare', '--help'])).toMatch(/^Options:\n {2}--methods /m)
    expect(printed(['record', '--help'])).toMatch(/^Options:\n {2}--out [\s\S]*^Network:$/m)
    const [short, long] = [printed(['follow', '--help']), printed(['follow', '--help', 'limits'])]
    expect(short).not.toContain('--limit-call-gas')
    expect(short).toContain('prints this help; --help limits lists the limits\n')
    expect(printed(['verify', '--help'])).toMatch(/--help +prints this help$/m)
    expect(long).toMatch(
      /^Calls and traces:\n[\s\S]*--limit-call-gas[\s\S]*^Upstreams and feeds:$/m,
    )
    const { flags } = COMMANDS.commands.find(({ name }) => name === 'follow')!
    const hidden = Object.keys(flags).filter((name) => isLimit(name) && !isListedLimit(name))
    expect(long).toContain(
      `docs/operate/limits.md lists ${hidden.length} more limits, which are flags too.`,
    )
    for (const name of Object.keys(flags)) {
      const times = hidden.includes(name) ? 0 : 1
      expect(`${short}${long}`.split(`  --${kebab(name)} `), name).toHaveLength(1 + times)
    }
  })

  test('shows defaults and required flags in the help', () => {
    expect(printed(['dev', '--help'])).toMatch(/--admin-port <PORT> .*\(default 8546\)$/m)
    expect(printed(['serve', '--help'])).toMatch(/--admin-port <PORT> .*\(default 0\)$/m)
    expect(printed(['dev', '--help'])).toMatch(/--db-cache <MB> .*\(default 64\)$/m)
    expect(printed(['import', '--help'])).toMatch(/--chain <FILE> .*\(required\)$/m)
  })

  test('is defined by the command objects alone', async () => {
    const ran: unknown[] = []
    const echo = defineCommand({
      name: 'echo',
      summary: 'says it again',
      flags: { saidWord: needed('WORD', 'what is said') },
      defaults: ({ saidWord }) => ({ twice: `${saidWord}${saidWord}` }),
      problems: ({ saidWord }) => (saidWord === 'no' ? ['nobody says no'] : []),
      async run({ saidWord, twice }) {
        ran.push(saidWord, twice)
      },
    })
    const known = { commands: [echo], notYet: ['shout'] } as const
    const request = (argv: string, environment: Environment = {}) =>
      readInvocation(argv.split(' '), environment, known)
    const invocation = request('echo', { FLASHNODE_SAID_WORD: 'a' })
    if (invocation.action === 'run') await invocation.command.run(invocation.config, [])
    expect(ran).toEqual(['a', 'aa'])
    expect(() => request('echo')).toThrow('echo needs --said-word WORD')
    expect(() => request('echo --said-word no')).toThrow('nobody says no')
    expect(() => request('echo --word a')).toThrow('nearest: --said-word')
    expect(() => request('ecko')).toThrow('nearest: echo')
    expect(() => request('shout')).toThrow('not available in this version')
    expect(request('--help')).toMatchObject({ text: expect.stringMatching(/^ {2}echo +says it/m) })
    expect(request('config dump --said-word b')).toEqual({
      action: 'print',
      text: 'said-word  b  # flag --said-word\n',
    })
  })

  test.each([
    ['redis://:secret@10.0.0.1:6379/0', 'redis://:***@10.0.0.1:6379/0'],
    ['rediss://user:se@cr:et@host', 'rediss://user:***@host'],
    ['redis://host:6379', 'redis://host:6379'],
  ])('shows no password in config dump (%s)', (given, dumped) => {
    const dump = printed(['config', 'dump', 'serve', '--limit-store', given])
    expect(dump).toMatch(`${dumped}  # flag`)
    expect(dump).not.toContain('secret')
  })
  test('shows each value with its origin in config dump', () => {
    const dump = printed(['config', 'dump', 'serve', '--port', '9'], { FLASHNODE_CORS: 'a,b' })
    expect(dump).toMatch(/^port +9 {2}# flag --port$/m)
    expect(dump).toMatch(/^cors +a,b {2}# environment FLASHNODE_CORS$/m)
    expect(dump).toMatch(/^datadir +\.flashnode\/serve-xlayer {2}# default$/m)
  })

  test('lists every problem in config check', () => {
    expect(printed(['config', 'check'])).toBe('the configuration of dev is valid\n')
    expect(
      problem(['config', 'check', '--port', 'x'], { FLASHNODE_HOTS: '1' }).split('\n'),
    ).toEqual([
      'unknown variable FLASHNODE_HOTS in the environment; nearest: FLASHNODE_HOST',
      'flag --port: "x": expected an integer from 0 to 65535',
    ])
  })

  test('finds the nearest name', () => {
    expect(closestName('rate_limit', ['port', 'rate-limit'])).toBe('rate-limit')
    expect(closestName('x', [])).toBe(undefined)
    expect(closestName('fork-url', ['port', 'host', 'chain', 'datadir'])).toBe(undefined)
    expect(closestName('fork', ['port', 'cork-size'])).toBe('cork-size')
    expect(closestName('prot', ['pool', 'port'])).toBe('port')
  })
})
