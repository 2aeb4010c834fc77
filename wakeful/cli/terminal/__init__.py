"""How events, messages, trees and statuses look in a terminal."""
