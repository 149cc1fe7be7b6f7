/**
 * The Dockerfile and the systemd unit cannot run here, so tools that know their formats check them.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { checks } from '../../kit/checks.ts'
import { install, run } from './install.ts'

const UNIT = 'docs/operate/flashnode.service'

export async function checkDeployment({
  check,
  skip,
}: Pick<ReturnType<typeof checks>, 'check' | 'skip'>): Promise<void> {
  const linter = await install('linter', ['dockerfile-utils@0.16.3'], 'off')
  const bin = join(linter, 'node_modules/dockerfile-utils/bin/dockerfile-utils')
  const { status, out } = await run(process.execPath, [bin, 'lint', resolve('Dockerfile')], {
    cwd: linter,
  })
  check(
    'the linter finds no fault in the Dockerfile',
    status === 0 && out.trim() === '',
    out.trim(),
  )
  const text = readFileSync('Dockerfile', 'utf8')
  const stages = text.match(/^FROM .*/gm) ?? []
  const last = stages.at(-1) ?? ''
  check(
    'the image is distroless and runs as nonroot',
    /distroless\/nodejs24-debian12:nonroot$/.test(last),
    last,
  )
  const probe = /CMD (\["\/nodejs\/bin\/node".*\])/.exec(text)?.[1] ?? '[]'
  const [, ...argv] = JSON.parse(probe) as string[]
  const silent = argv.map((one) => one.replace(':8545/', ':1/'))
  const sick = await run(process.execPath, silent, { cwd: linter })
  check('the health check fails when no node answers', argv.length === 2 && sick.status === 1)
  const found = spawnSync('systemd-analyze', ['verify', resolve(UNIT)], { encoding: 'utf8' })
  if (found.error === undefined)
    check(
      'systemd-analyze finds no fault in the unit',
      found.status === 0 && found.stderr === '',
      found.stderr,
    )
  else skip('the unit of systemd', 'systemd-analyze is not on this machine')
}
