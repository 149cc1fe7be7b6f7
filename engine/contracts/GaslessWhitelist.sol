// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// Says which calls pay no fees on X Layer: the chain asks getGaslessAllowance before a transaction that offers none. Owner (the first
/// of the funded accounts) and largest gas limit are in the genesis; it is off until the owner turns it on.
contract GaslessWhitelist {
    struct Rule {
        bool allowed;
        uint64 gasLimit;
    }

    struct TargetConfig {
        address target;
        bool allowed;
        uint64 gasLimit;
    }

    struct SpenderConfig {
        address token;
        address spender;
        bool allowed;
        uint64 gasLimit;
    }

    bytes4 public constant TRANSFER_SELECTOR = 0xa9059cbb;
    bytes4 public constant TRANSFER_FROM_SELECTOR = 0x23b872dd;
    bytes4 public constant APPROVE_SELECTOR = 0x095ea7b3;
    /// ERC-7201: openzeppelin.storage.Ownable.
    bytes32 private constant OWNER_SLOT = 0x9016d09d72d40fdae2fd8ceac6b6234c7706214fd39c1cd1e609a0528c199300;

    mapping(address => Rule) public fullyGaslessTargets; // slot 0
    mapping(address => Rule) public gaslessTransferTokens; // slot 1
    mapping(address => Rule) public gaslessTransferFromTokens; // slot 2
    mapping(address => mapping(address => Rule)) public approveSpendersByToken; // slot 3
    uint64 public maxGasLimit; // slot 4, from its low end
    bool public gaslessEnabled;

    event FullyGaslessTargetSet(address indexed target, bool allowed, uint64 gasLimit);
    event GaslessTransferTokenSet(address indexed token, bool allowed, uint64 gasLimit);
    event GaslessTransferFromTokenSet(address indexed token, bool allowed, uint64 gasLimit);
    event ApproveSpenderSet(address indexed token, address indexed spender, bool allowed, uint64 gasLimit);
    event GaslessEnabledSet(bool enabled);
    event MaxGasLimitSet(uint64 maxGasLimit);
    event OwnershipTransferred(address indexed previousOwner, address indexed newOwner);

    error ZeroAddress();
    error InvalidGasLimit();
    error InvalidMaxGasLimit();
    error GasLimitExceedsMax();
    error OwnableUnauthorizedAccount(address account);
    error OwnableInvalidOwner(address owner);

    modifier onlyOwner() {
        if (msg.sender != owner()) revert OwnableUnauthorizedAccount(msg.sender);
        _;
    }

    function getGaslessAllowance(address to, bytes calldata data) external view returns (bool, uint64) {
        if (!gaslessEnabled || maxGasLimit == 0 || to == address(0) || data.length < 4) return (false, 0);
        Rule memory rule = ruleOf(to, data);
        if (!rule.allowed) return (false, 0);
        return (true, rule.gasLimit > maxGasLimit ? maxGasLimit : rule.gasLimit);
    }

    /// A rule for the whole target goes before those for single functions.
    function ruleOf(address to, bytes calldata data) private view returns (Rule memory rule) {
        rule = fullyGaslessTargets[to];
        if (rule.allowed) return rule;
        bytes4 selector = bytes4(data);
        if (selector == TRANSFER_SELECTOR) return gaslessTransferTokens[to];
        if (selector == TRANSFER_FROM_SELECTOR) return gaslessTransferFromTokens[to];
        if (selector == APPROVE_SELECTOR && data.length >= 36) {
            return approveSpendersByToken[to][address(uint160(uint256(bytes32(data[4:36]))))];
        }
    }

    function setFullyGaslessTarget(address target, bool allowed, uint64 gasLimit) public onlyOwner {
        fullyGaslessTargets[target] = checkedRule(target, allowed, gasLimit);
        emit FullyGaslessTargetSet(target, allowed, gasLimit);
    }

    function setGaslessTransferToken(address token, bool allowed, uint64 gasLimit) public onlyOwner {
        gaslessTransferTokens[token] = checkedRule(token, allowed, gasLimit);
        emit GaslessTransferTokenSet(token, allowed, gasLimit);
    }

    function setGaslessTransferFromToken(address token, bool allowed, uint64 gasLimit) public onlyOwner {
        gaslessTransferFromTokens[token] = checkedRule(token, allowed, gasLimit);
        emit GaslessTransferFromTokenSet(token, allowed, gasLimit);
    }

    function setApproveSpender(address token, address spender, bool allowed, uint64 gasLimit) public onlyOwner {
        if (spender == address(0)) revert ZeroAddress();
        approveSpendersByToken[token][spender] = checkedRule(token, allowed, gasLimit);
        emit ApproveSpenderSet(token, spender, allowed, gasLimit);
    }

    function batchSetFullyGaslessTargets(TargetConfig[] calldata configs) external {
        for (uint256 i = 0; i < configs.length; i++) {
            setFullyGaslessTarget(configs[i].target, configs[i].allowed, configs[i].gasLimit);
        }
    }

    function batchSetGaslessTransferTokens(TargetConfig[] calldata configs) external {
        for (uint256 i = 0; i < configs.length; i++) {
            setGaslessTransferToken(configs[i].target, configs[i].allowed, configs[i].gasLimit);
        }
    }

    function batchSetGaslessTransferFromTokens(TargetConfig[] calldata configs) external {
        for (uint256 i = 0; i < configs.length; i++) {
            setGaslessTransferFromToken(configs[i].target, configs[i].allowed, configs[i].gasLimit);
        }
    }

    function batchSetApproveSpenders(SpenderConfig[] calldata configs) external {
        for (uint256 i = 0; i < configs.length; i++) {
            setApproveSpender(configs[i].token, configs[i].spender, configs[i].allowed, configs[i].gasLimit);
        }
    }

    function setGaslessEnabled(bool enabled) external onlyOwner {
        gaslessEnabled = enabled;
        emit GaslessEnabledSet(enabled);
    }

    function setMaxGasLimit(uint64 newMaxGasLimit) external onlyOwner {
        if (newMaxGasLimit == 0) revert InvalidMaxGasLimit();
        maxGasLimit = newMaxGasLimit;
        emit MaxGasLimitSet(newMaxGasLimit);
    }

    function owner() public view returns (address account) {
        assembly {
            account := sload(OWNER_SLOT)
        }
    }

    function transferOwnership(address newOwner) external onlyOwner {
        if (newOwner == address(0)) revert OwnableInvalidOwner(newOwner);
        setOwner(newOwner);
    }

    function renounceOwnership() external onlyOwner {
        setOwner(address(0));
    }

    function setOwner(address newOwner) private {
        emit OwnershipTransferred(owner(), newOwner);
        assembly {
            sstore(OWNER_SLOT, newOwner)
        }
    }

    function checkedRule(address account, bool allowed, uint64 gasLimit) private view returns (Rule memory) {
        if (account == address(0)) revert ZeroAddress();
        if (allowed && gasLimit == 0) revert InvalidGasLimit();
        if (allowed && gasLimit > maxGasLimit) revert GasLimitExceedsMax();
        return Rule(allowed, gasLimit);
    }
}
