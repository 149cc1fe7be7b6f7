/** What `--engine` may say. Apart from the engines themselves: reading a command line loads none of them. */

/** The first is the default. */
export const ENGINE_NAMES = ['fast', 'reference'] as const
/** How the fast engine goes through code: what runs again on its translation, all on its bytes, all translated. */
export const ENGINE_TIERS = ['auto', 'precise', 'stream'] as const
export type EngineTier = (typeof ENGINE_TIERS)[number]
export type EngineName = (typeof ENGINE_NAMES)[number]
