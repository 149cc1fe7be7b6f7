#!/usr/bin/env node
/**
 * The command `biome` of a checkout. Biome is 64 MB that neither the node nor its tests need, so
 * its first run installs it. npm links this file, because `npx biome` without it fetches an
 * unrelated package of that name.
 */
import { spawnSync } from 'node:child_process'
import { requireFrom } from '../kit/own-packages.ts'

const require = requireFrom(new URL('./packages/', import.meta.url))
const argv = [require.resolve('@biomejs/biome/bin/biome'), ...process.argv.slice(2)]
process.exitCode = spawnSync(process.execPath, argv, { stdio: 'inherit' }).status ?? 1
