/** What `--engine` may say. Apart from the engines themselves: reading a command line loads none of them. */

/** The first is the default. */
export const ENGINE_NAMES = ['fast', 'reference'] as const
export type EngineName = (typeof ENGINE_NAMES)[number]
